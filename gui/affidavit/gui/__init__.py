"""The windows: they show views and report clicks; nothing here knows how anything is sent."""
