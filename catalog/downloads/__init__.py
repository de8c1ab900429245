"""Files from elsewhere: fetched once, checked, kept by content. Read ``store`` first."""

from catalog.downloads.store import FileStore

__all__ = ["FileStore"]
