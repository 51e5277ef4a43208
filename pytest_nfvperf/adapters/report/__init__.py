"""Sinks and renderings: Allure, the terminal table, HTML, pictures."""
