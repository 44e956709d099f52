/** Imported definitions. */
export const PIN_QUERIES = {
  pinRevision: 'SELECT revision FROM pin_sources WHERE source = ?',
  insertPinSource: 'INSERT INTO pin_sources (source, revision) VALUES (?, 1) ON CONFLICT (source) DO NOTHING',
  raisePinRevision: 'UPDATE pin_sources SET revision = revision + 1 WHERE source = ? AND revision = ?',
  pinSources: 'SELECT source FROM pin_sources ORDER BY source',
  pinsOf: 'SELECT * FROM pins WHERE source = ? ORDER BY native_name',
  writePin: `INSERT INTO pins (source, native_name, local, served, accepted, waiting) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, native_name)
    DO UPDATE SET served = excluded.served, accepted = excluded.accepted, waiting = excluded.waiting`,
  raisePinEpoch: `INSERT INTO meta (name, value) VALUES ('pin_epoch', '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)`,
} as const
