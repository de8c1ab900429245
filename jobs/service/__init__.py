"""The service: a home's measurements over HTTP, as an API and as pages."""

#: Where the API lies.
API = "/api/v1"
