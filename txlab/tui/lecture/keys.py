"""The keys of a lecture: what presenters' remotes send, and two letters for keyboards without these keys.

All get through tmux and screen, and none types anything; while a lecture is played they are its own on every screen.
"""

FORWARD, BACK, NOTES, LEAVE = "pagedown,ctrl+n", "pageup,ctrl+o", "ctrl+t,alt+t", "ctrl+l,alt+l"
PLAYER_KEYS = f"{FORWARD},{BACK},{NOTES},{LEAVE}".split(",")

BETWEEN = "between"
"""An empty mode, in front while a screen is replaced by a new one: the mode in front cannot be removed."""
