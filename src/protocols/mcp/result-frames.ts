import type { JsonObject } from '#core/json'
import type { McpOptions } from './options.ts'
import { ResultFrame } from './result-frame.ts'
import { NEW_REVISION, type Revision } from './wire.ts'

/** The frames of all revisions, made once. */
export class ResultFrames {
  readonly serverInfo: JsonObject
  readonly #byRevision: Readonly<Record<Revision, ResultFrame>>

  constructor({ name, serverVersion }: McpOptions) {
    this.serverInfo = { name, version: serverVersion }
    this.#byRevision = {
      '2025-06-18': new ResultFrame('2025-06-18', this.serverInfo),
      '2025-11-25': new ResultFrame('2025-11-25', this.serverInfo),
      [NEW_REVISION]: new ResultFrame(NEW_REVISION, this.serverInfo),
    }
  }

  of(revision: Revision): ResultFrame {
    return this.#byRevision[revision]
  }
}
