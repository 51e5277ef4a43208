"""The child process that holds TRex's client library. Run by ``python -m``; nothing else imports it."""
