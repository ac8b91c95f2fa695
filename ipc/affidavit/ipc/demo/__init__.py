"""The guided tour: a practice service, a throw-away home, the real broker, and scenes that check what they show."""
