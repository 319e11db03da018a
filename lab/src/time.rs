//! Moments as records write them.

use std::time::SystemTime;

/// UTC, RFC 3339, with milliseconds.
pub fn rfc3339(moment: SystemTime) -> String {
    humantime::format_rfc3339_millis(moment).to_string()
}
