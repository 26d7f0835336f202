//! Names of registered filters that are refused, so that a refusal can say what it met.

/// The registered name of a filter that cannot be undone here.
pub(crate) fn of(id: u32) -> Option<&'static str> {
    REFUSED.iter().find(|row| row.0 == id).map(|row| row.1)
}

static REFUSED: &[(u32, &str)] = &[
    (305, "lzo"),
    (32002, "mafisc"),
    (32003, "snappy"),
    (32005, "apax"),
    (32006, "cbf"),
    (32007, "jpeg-xr"),
    (32009, "spdp"),
    (32010, "lpc-rice"),
    (32011, "ccsds-123"),
    (32012, "jpeg-ls"),
    (32014, "fpzip"),
    (32016, "b3d"),
    (32017, "sz"),
    (32018, "fcidecomp"),
    (32019, "jpeg"),
    (32020, "vbz"),
    (32021, "fapec"),
    (32024, "sz3"),
    (32025, "delta-rice"),
    (32027, "flac"),
    (32028, "sperr"),
    (32029, "trpx"),
    (32030, "ffmpeg"),
    (32031, "jpeg 2000"),
    (32033, "htj2k"),
];
