"""The pages: for people what the API is for programs, readable without a script.

``site`` has what all pages share. Pages of answers are made by a process of their own
(``renderer``), from the code that makes a report's pages; the others by their routes.
"""
