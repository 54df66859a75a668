"""The demo: real text, the real model, live changes, and a proof at the end."""

from freshet.demo.story import tell

__all__ = ["tell"]
