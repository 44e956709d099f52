import type { ErrorCode } from '#core/errors'
import type { JsonObject } from '#core/json'
import { META, NEW_REVISION, type Revision } from './wire.ts'

const ERROR_CODE = 'collet/errorCode'
const UNTRUSTED = `"${META.contentTrust}":"untrusted"`

/** The call whose result it is, if any. */
export interface ResultOf {
  readonly callId?: string
  /** Absent when nothing was recorded. */
  readonly runId?: string | undefined
  readonly errorCode?: ErrorCode
  /** Somebody else wrote it (OWP-58). */
  readonly untrusted?: true | undefined
  /** Members that another MCP server gave its result, as a JSON object that is not empty; none has a name of ours. */
  readonly metaJson?: string | undefined
}

/** What every result of one revision has besides its own members: its kind and who made it (MCP-07, MCP-08). */
export class ResultFrame {
  readonly #open: string
  readonly #server: string
  readonly #isNew: boolean

  constructor(revision: Revision, serverInfo: JsonObject) {
    this.#isNew = revision === NEW_REVISION
    this.#open = this.#isNew ? '{"resultType":"complete",' : '{'
    this.#server = `${JSON.stringify(META.serverInfo)}:${JSON.stringify(serverInfo)}`
  }

  /** A finished result with these members, already JSON. */
  complete(members: string, of: ResultOf = {}): string {
    const meta = this.#meta(of)
    return `${this.#open}${members}${meta === '' ? '' : `,"_meta":{${meta}}`}}`
  }

  /** Not finished: the caller is asked first (MCP-70). Exists in the newest revision only. */
  inputRequired(members: JsonObject, callId: string): string {
    const own = JSON.stringify(members).slice(1, -1)
    return `{"resultType":"input_required",${own},"_meta":{${this.#meta({ callId })}}}`
  }

  #meta({ callId, runId, errorCode, untrusted, metaJson }: ResultOf): string {
    return [
      ...(this.#isNew ? [this.#server] : []),
      ...(callId === undefined ? [] : [`${JSON.stringify(META.callId)}:${JSON.stringify(callId)}`]),
      ...(runId === undefined ? [] : [`"${META.runId}":${JSON.stringify(runId)}`]),
      ...(errorCode === undefined ? [] : [`"${ERROR_CODE}":"${errorCode}"`]),
      ...(untrusted === true ? [UNTRUSTED] : []),
      ...(metaJson === undefined ? [] : [metaJson.slice(1, -1)]),
    ].join(',')
  }
}
