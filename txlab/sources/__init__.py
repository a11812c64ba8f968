"""Sources of frames for screens: an experiment stepped here (`live`), or a run directory (`recorded`)."""
