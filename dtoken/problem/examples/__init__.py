"""Losses that come with dtoken as a user's own would: one file each, nothing else names what they do."""
