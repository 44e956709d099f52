import type { Gateway } from '#core/calls/gateway'
import type { HttpRoute } from '#protocols/http-exchange'
import { openGet } from './open-get.ts'
import type { OtcSettings } from './options.ts'
import { jsonReply } from './reply.ts'

const NO_STORE = { 'cache-control': 'no-store' }

/** Health is open to everybody (OTC-04); uts spells its status in capitals and adds `/info`. */
export function healthRoutes(gateway: Gateway, settings: OtcSettings): readonly HttpRoute[] {
  return [
    openGet('/health', settings, () => healthReply(gateway, 'ok')),
    openGet('/uts/health', settings, () => healthReply(gateway, 'OK')),
    openGet('/uts/info', settings, () =>
      jsonReply(200, JSON.stringify({ version: settings.serverVersion }), NO_STORE),
    ),
  ]
}

/** 200 while calls are taken, else 503 (OTC-02, OTC-03). */
function healthReply(gateway: Gateway, healthy: string) {
  return gateway.isReady()
    ? jsonReply(200, JSON.stringify({ status: healthy }), NO_STORE)
    : jsonReply(
        503,
        JSON.stringify({ status: 'unavailable', message: 'The server takes no calls right now.' }),
        {
          ...NO_STORE,
          'retry-after': '1',
        },
      )
}
