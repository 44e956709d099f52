import type { HttpRoute } from '#protocols/http-exchange'
import { refusePlainly } from './refuse.ts'
import { jsonReply } from './reply.ts'
import { BASE_PATH, VERSION_PATH } from './wire.ts'

/** `GET /version` (OTS-32). It also stands for the whole of `/opentool`, unknown paths included (OTS-48). */
export function versionRoute(version: string): HttpRoute {
  const body = JSON.stringify({ version })
  return {
    method: 'GET',
    path: VERSION_PATH,
    access: 'authenticated',
    body: 'never',
    owns: BASE_PATH,
    handle: () => jsonReply(200, body),
    refuse: refusePlainly,
  }
}
