import { fault } from '#core/errors'
import { suspensionBy } from '#core/imports/pin-view'
import type { Discovery, Invocation, OfferedTool } from '#core/ports/source'
import { untilAborted } from '#core/runtime'
import type { Connection } from './connection.ts'
import { listTools, readListing } from './discover.ts'
import { reasonOf, unreachable } from './errors.ts'
import type { McpOptions } from './options.ts'
import type { Endpoint, Upstream } from './upstream.ts'

interface CheckSetting {
  readonly endpoint: Endpoint
  readonly options: McpOptions
  readonly upstream: Upstream
}

/** What one program offers, and what was found about accepted definitions. */
interface Look {
  /** `news` of the connection when it was asked; with more of it, it is asked again. */
  readonly news: number
  readonly offers: Promise<Discovery>
  /** `undefined` for one that is still offered. */
  readonly found: WeakMap<OfferedTool, string | undefined>
}

const LOOKS = new WeakMap<Connection, Look>()

/**
 * A program is started for its callers long after its tools were listed, and may be another one by then (`npx` fetches
 * the newest): before its first call it tells what it offers, and a call that the pins would refuse is not sent to it
 * (rule 32). Servers on HTTP change without being started, so there is no such moment.
 */
export async function checkProgram(
  setting: CheckSetting,
  connection: Connection,
  { accepted, nativeName, context }: Invocation,
): Promise<void> {
  if (setting.endpoint.transport !== 'stdio' || accepted === undefined) return
  const known = LOOKS.get(connection)
  const look = known?.news === connection.news ? known : begin(setting, connection)
  if (!look.found.has(accepted.offered)) {
    const { identity, tools } = await untilAborted(look.offers, context.signal)
    const offered = tools.find((tool) => tool.nativeName === nativeName)
    const met = offered === undefined ? undefined : { offered, identity }
    look.found.set(accepted.offered, suspensionBy(accepted, met))
  }
  const why = look.found.get(accepted.offered)
  if (why === undefined) return
  setting.upstream.changed()
  throw fault(
    'upstream_failed',
    `The program behind this tool is another one than was accepted: ${why}. Nothing was sent. An operator must accept the change before it can be called again.`,
    {
      canRetry: true,
      developerMessage: 'See it with `collet pins diff`; accept it with `collet pins accept`.',
    },
  )
}

function begin(setting: CheckSetting, connection: Connection): Look {
  const look: Look = { news: connection.news, offers: read(setting, connection), found: new WeakMap() }
  LOOKS.set(connection, look)
  // The next call asks again.
  look.offers.catch(() => LOOKS.delete(connection))
  return look
}

async function read(setting: CheckSetting, connection: Connection): Promise<Discovery> {
  try {
    const deadline = AbortSignal.timeout(setting.options.discoverTimeoutMs)
    return await readListing(setting, connection, await listTools(connection, deadline))
  } catch (error) {
    const developerMessage = `The program does not tell what it offers: ${reasonOf(error)}`
    throw unreachable({ developerMessage, cause: error })
  }
}
