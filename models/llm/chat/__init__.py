"""Chats: templates, conversations, replies and calls of tools."""
