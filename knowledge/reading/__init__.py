"""Reading: from paths and bytes to lines that know their rank, host, attempt and time."""
