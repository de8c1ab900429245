"""The experiment of linearisation, as one command: its trainings, tables and figures."""
