import { fault } from '#core/errors'
import type { Connection } from './connection.ts'
import type { Credentials } from './credentials.ts'
import type { Lease } from './pool.ts'
import type { Upstream } from './upstream.ts'

/** State of a session: a connection that nobody else uses, made with the first call (openwop §7.3). */
export class SessionHold {
  readonly #sessionId: string
  readonly #upstream: Upstream
  #leasing: Promise<Lease> | undefined
  #lease: Lease | undefined
  #isClosed = false

  constructor(sessionId: string, upstream: Upstream) {
    this.#sessionId = sessionId
    this.#upstream = upstream
  }

  /** The session's connection; when it is gone, so is what the session stood on. */
  async connect(credentials: Credentials, signal: AbortSignal): Promise<Connection> {
    if (this.#lease === undefined) {
      this.#leasing ??= this.#upstream.leaseSession(this.#sessionId, credentials, signal)
      try {
        this.#lease = await this.#leasing
      } finally {
        this.#leasing = undefined
      }
    }
    if (this.#isClosed) this.#end()
    const { connection } = this.#lease
    if (!connection.isOpen) throw sessionLost()
    return connection
  }

  close(): void {
    this.#isClosed = true
    this.#end()
  }

  #end(): void {
    if (this.#lease === undefined) return
    const { connection, release } = this.#lease
    release()
    this.#upstream.retire(connection)
  }
}

export function sessionLost() {
  return fault(
    'session_lost',
    'The MCP server that held the state of this session is gone; open a new session.',
  )
}
