//! A picture of what a model is worth (to come).
