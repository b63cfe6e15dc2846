//! The systems whose logs are understood, one file each. What each reads is listed in `docs/import.md`, from these tables.

mod bigquery;
mod cab;
mod clickhouse;
mod databend;
mod postgres;
mod redset;
mod redshift;
mod snowflake;
#[cfg(test)]
mod tests;
mod trino;

use super::layout::Profile;

/// CSV, JSON lines or Parquet of any kind, mapped by hand.
pub(crate) static CSV: Profile = Profile {
    name: "csv",
    about: "CSV, JSON lines or Parquet of any kind; --map says which column is what",
    layouts: &[],
};

/// Every profile.
pub(crate) static ALL: [&Profile; 11] = [
    &redshift::PROFILE,
    &snowflake::PROFILE,
    &trino::PROFILE,
    &clickhouse::PROFILE,
    &bigquery::PROFILE,
    &databend::PROFILE,
    &postgres::PROFILE,
    &redset::PROFILE,
    &redset::REDBENCH,
    &cab::PROFILE,
    &CSV,
];

/// The profile of that name.
pub(crate) fn named(name: &str) -> Option<&'static Profile> {
    ALL.iter().find(|profile| profile.name == name).copied()
}
