package ingest

// YearUnknown starts Clock.Why of a log that states day and time and no year. Its stamps are of BaseYear, and of the years after it where
// the log runs past a new year.
const YearUnknown = "year unknown"

// BaseYear stands where a log states no year: a leap year, so that every date exists.
const BaseYear = 2000
