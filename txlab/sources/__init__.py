"""Where the frames of a screen come from: an experiment stepped here (`live`), or a run directory (`recorded`)."""
