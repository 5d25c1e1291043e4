"""Answers to people who ask further: from stored evidence, with file and line, and without any model."""
