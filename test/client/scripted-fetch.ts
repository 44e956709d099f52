import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/base/json'

interface ScriptedRequest {
  readonly url: string
  readonly method: string
  readonly headers: Headers
  /** The request object of a call, wrapped or bare. */
  readonly call: JsonObject
}

export type Step = (request: ScriptedRequest) => Response | Promise<Response>

/** `GET /tools` returns these tools; every other request takes the next step, and the last step repeats. */
export function scriptedFetch(tools: readonly JsonObject[], ...steps: readonly Step[]) {
  const requests: ScriptedRequest[] = []
  const waits: number[] = []
  const left = [...steps]
  const fetch = async (url: string, init: RequestInit) => {
    if (new URL(url).pathname === '/tools') return Response.json({ $schema: 'urn:oxp:1.0', items: tools })
    const body: JsonValue = typeof init.body === 'string' ? JSON.parse(init.body) : {}
    const call = isJsonObject(body) && isJsonObject(body.request) ? body.request : body
    const request = {
      url,
      method: init.method ?? 'GET',
      headers: new Headers(init.headers),
      call: isJsonObject(call) ? call : {},
    }
    requests.push(request)
    const step = left.length > 1 ? left.shift() : left[0]
    if (step === undefined) throw new Error('the script is empty')
    return await step(request)
  }
  const sleep = async (ms: number) => void waits.push(ms)
  return { fetch, sleep, requests, waits }
}

export function succeed(value: JsonValue): Step {
  return ({ call }) => Response.json({ result: { call_id: call.call_id, success: true, value } })
}

export function failWith(error: JsonObject): Step {
  return ({ call }) => Response.json({ result: { call_id: call.call_id, success: false, error } })
}

export function refuse(status: number, body: JsonValue, headers: Record<string, string> = {}): Step {
  return () => Response.json(body, { status, headers })
}

export const breakConnection: Step = () => {
  throw new TypeError('fetch failed', { cause: new Error('ECONNRESET') })
}
