"""The journal: records, their chain, their sealing and their storage. It knows nothing of what an event means."""
