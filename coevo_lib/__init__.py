"""Helpers behind the notebooks of coevo: co-evolve a tool-use harness and a small model.

The notebooks tell the story; the modules here only do the work. Nothing happens on import.
"""
