import type { HttpRoute } from '#protocols/http-exchange'
import { refusePlainly } from './refuse.ts'
import { jsonReply } from './reply.ts'
import { STOP_PATH } from './wire.ts'

/** The answer gets this much time to leave. */
const STOP_AFTER_MS = 200

/** `POST /stop` (OTS-53): exists only where the operator turned it on and callers need a key. */
export function stopRoute(stop: () => void): HttpRoute {
  return {
    method: 'POST',
    path: STOP_PATH,
    access: 'authenticated',
    body: 'never',
    handle() {
      setTimeout(stop, STOP_AFTER_MS)
      return jsonReply(200, '{"status":"stopped"}')
    },
    refuse: refusePlainly,
  }
}
