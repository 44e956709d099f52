/** Imported definitions. */
export const PIN_QUERIES = {
  pinRevision: 'SELECT revision FROM pin_sources WHERE source = ?',
  insertPinSource: 'INSERT INTO pin_sources (source, revision) VALUES (?, ?) ON CONFLICT (source) DO NOTHING',
  raisePinRevision: 'UPDATE pin_sources SET revision = ? WHERE source = ? AND revision = ?',
  pinSources: 'SELECT source FROM pin_sources ORDER BY source',
  pinsAfter: 'SELECT * FROM pins WHERE source = ? AND native_name > ? ORDER BY native_name LIMIT ?',
  writePin: `INSERT INTO pins (source, native_name, local, served, accepted, waiting, mac) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (source, native_name)
    DO UPDATE SET local = excluded.local, mac = excluded.mac, served = excluded.served, accepted = excluded.accepted, waiting = excluded.waiting`,
  raisePinEpoch: `INSERT INTO meta (name, value) VALUES ('pin_epoch', '1')
    ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT)`,
} as const
