//! Journal.
