import type { Row } from '#kernel/store/engine'
import { integer, text } from '#kernel/store/rows'
import { DEFINITION } from '#store/collet-store'
import { unencryptedWarning } from './address.ts'
import { Connection } from './connection.ts'
import { readSchemaVersion } from './open.ts'

/**
 * Checks of a PostgreSQL database for `collet doctor`: version, encoding, durability, standbys, free connections, clocks, tables
 * and permissions. It changes nothing.
 */

export interface Finding {
  readonly level: 'ok' | 'warn' | 'fail'
  readonly subject: string
  readonly message: string
  /** Absent for `ok`. */
  readonly advice?: string
  /** Set if the tables do not exist yet or are outdated, so that their contents cannot be checked. */
  readonly isUnprepared?: true
}

export async function examineDatabase(url: string, nowMs: () => number): Promise<readonly Finding[]> {
  let connection: Connection | undefined
  try {
    connection = await Connection.open(url)
    const before = nowMs()
    const { rows } = await connection.one({ text: FACTS })
    const after = nowMs()
    const facts = rows[0] ?? {}
    return [
      checkServer(facts),
      ...checkEncryption(url),
      ...(connection.isPooled ? [POOLED] : []),
      checkDurability(facts),
      checkStandbys(facts),
      checkConnections(facts),
      checkClocks(integer(facts, 'now') - (before + after) / 2),
      await checkTables(connection),
    ]
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return [{ level: 'fail', subject: 'store', message: reason, advice: adviceFor(reason) }]
  } finally {
    await connection?.close()
  }
}

const FACTS = `SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS release,
  current_setting('server_encoding') AS encoding, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS pages, current_setting('synchronous_commit') AS waits,
  current_setting('synchronous_standby_names') AS standbys, (SELECT count(*) FROM pg_stat_replication) AS followers,
  CAST(pg_is_in_recovery() AS INT) AS standby, current_setting('max_connections')::int
    - current_setting('superuser_reserved_connections')::int AS room,
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
  CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) AS now`

function checkEncryption(url: string): readonly Finding[] {
  const warning = unencryptedWarning(url)
  return warning === undefined
    ? []
    : [warn('encryption', warning, 'sslmode=require checks the certificate too.')]
}

const POOLED = warn(
  'pooler',
  'This is a pooler (PgBouncer). Notices do not pass through it, so the server polls for changes made by other servers',
  'Name the database itself as well: ?direct=HOST:PORT.',
)

/** The oldest version that has every feature the statements use and is still supported for some time. */
const MIN_VERSION = 150_000

function checkServer(facts: Row): Finding {
  const encoding = text(facts, 'encoding')
  const message = `PostgreSQL ${text(facts, 'release')}, ${encoding}`
  if (integer(facts, 'standby') === 1)
    return fail('server', `${message}, a standby`, 'Name the primary: a standby accepts no changes.')
  if (integer(facts, 'version') < MIN_VERSION)
    return fail('server', `${message} is too old`, 'Use PostgreSQL 15 or newer.')
  if (encoding === 'UTF8') return ok('server', message)
  const advice = "Create the database with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0."
  return fail('server', message, advice)
}

/** Checks that acknowledged changes are on disk, as far as the settings show. */
function checkDurability(facts: Row): Finding {
  const [fsync, pages, waits] = [text(facts, 'fsync'), text(facts, 'pages'), text(facts, 'waits')]
  const message = `fsync ${fsync}, full_page_writes ${pages}, synchronous_commit ${waits}`
  if (fsync === 'on' && pages === 'on' && waits !== 'off') return ok('fsync', message)
  const advice =
    fsync === 'on' && pages === 'on'
      ? 'Set synchronous_commit on (ALTER ROLE … SET synchronous_commit = on): without it a crash loses calls.'
      : 'Set fsync and full_page_writes on: without them a crash loses or corrupts acknowledged changes.'
  return fail('fsync', message, advice)
}

function checkStandbys(facts: Row): Finding {
  const [names, followers] = [text(facts, 'standbys'), integer(facts, 'followers')]
  if (names !== '' && text(facts, 'waits') !== 'local') return ok('standby', `Commits wait for ${names}`)
  if (followers === 0) return ok('standby', 'There is no standby to fail over to')
  return warn(
    'standby',
    `Standbys: ${followers}, and commits do not wait for them`,
    'A failover may lose the last commits. To prevent this, set synchronous_standby_names.',
  )
}

/** One connection each for changes, reads, snapshots, the lease and notices. */
const CONNECTIONS_PER_REPLICA = 5

function checkConnections(facts: Row): Finding {
  const [room, used] = [integer(facts, 'room'), integer(facts, 'used')]
  const replicas = Math.floor((room - used) / CONNECTIONS_PER_REPLICA)
  const message = `${used} of ${room} connections are in use; a server needs ${CONNECTIONS_PER_REPLICA}`
  if (replicas >= 2) return ok('connections', message)
  return warn('connections', message, 'Raise max_connections, or close unused connections.')
}

const MIN_REPORTED_MS = 200
/** Beyond this a server refuses to run calls. */
const MAX_OFFSET_MS = 1_000

function checkClocks(offsetMs: number): Finding {
  const off = Math.round(Math.abs(offsetMs))
  const message = `The clocks of this machine and the database differ by ${off} ms`
  if (off <= MIN_REPORTED_MS) return ok('clocks', message)
  const advice = 'Synchronize both with the same time server (NTP).'
  return off > MAX_OFFSET_MS ? fail('clocks', message, advice) : warn('clocks', message, advice)
}

async function checkTables(connection: Connection): Promise<Finding> {
  const version = await readSchemaVersion(connection)
  const needed = DEFINITION.migrations.length
  if (version > needed) {
    const advice = 'Use that version, or a backup from before the upgrade.'
    return fail('schema', `Schema ${version} is from a newer version of Collet`, advice)
  }
  const { rows } = await connection.one({ text: version === 0 ? MAY_MAKE : MAY_USE })
  const isAllowed = integer(rows[0] ?? {}, 'allowed') === 1
  if (version === 0 && !isAllowed) {
    const advice = 'Run collet migrate as the owner of the database.'
    return fail('schema', 'There are no tables, and this user may not create them', advice)
  }
  if (version === 0)
    return { ...ok('schema', 'The tables will be created at the first start'), isUnprepared: true }
  if (!isAllowed)
    return fail(
      'schema',
      'This user may not read and change the tables',
      'As their owner: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO that user.',
    )
  if (version === needed) return ok('schema', `Schema ${version}`)
  const outdated = `Schema ${version}, and this Collet needs ${needed}`
  const advice = 'Make a backup, then run: collet migrate'
  return { ...warn('schema', outdated, advice), isUnprepared: true }
}

const MAY_MAKE = "SELECT CAST(has_schema_privilege(current_schema(), 'CREATE') AS INT) AS allowed"
const MAY_USE = `SELECT CAST(bool_and(has_table_privilege(t, 'SELECT') AND has_table_privilege(t, 'INSERT')
  AND has_table_privilege(t, 'UPDATE') AND has_table_privilege(t, 'DELETE')) AS INT) AS allowed
  FROM unnest(ARRAY['calls', 'commit_groups', 'writers', 'runs', 'meta']) AS t`

function adviceFor(reason: string): string {
  if (/certificate/.test(reason))
    return 'Name the file of the certificate authority with sslrootcert, or encrypt without checking the certificate: sslmode=no-verify.'
  if (/does not support SSL/.test(reason)) return 'Turn on TLS in PostgreSQL, or leave out sslmode.'
  return 'Check the host, the port, the name of the database, the user and the password (PGPASSWORD).'
}

function ok(subject: string, message: string): Finding {
  return { level: 'ok', subject, message }
}

function warn(subject: string, message: string, advice: string): Finding {
  return { level: 'warn', subject, message, advice }
}

function fail(subject: string, message: string, advice: string): Finding {
  return { level: 'fail', subject, message, advice }
}
