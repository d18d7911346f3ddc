"""Other machines: explorers, uploads and tables of measurements."""
