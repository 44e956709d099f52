/**
 * Makes servers reload their config (rule 29). The config itself is never part of a request. A running server reports the result; if
 * only the store is open, the servers on it reload within a second or two and log the result.
 */
import { RELOAD_CONFIG } from '#admin-api/server'
import type { Logger } from '#kernel/base/logger'
import type { ServerRoute } from '#server/http/router'
import { isRefusal, type Reloaded } from '#server/reload'
import type { Store } from '#store/collet-store'
import type { OperatorAccess } from './access.ts'
import { badRequest, serveOperation } from './admin-route.ts'

export function createReloadRoutes(
  access: OperatorAccess,
  { reloadEverywhere, log }: { reloadEverywhere(): Promise<Reloaded>; readonly log: Logger },
): readonly ServerRoute[] {
  return [
    serveOperation(access, RELOAD_CONFIG, async ({ principal }) => {
      log.info({ principal: principal.id }, 'config reload requested')
      try {
        const { applied, needRestart, refused } = await reloadEverywhere()
        return { applied, needs_restart: needRestart, refused }
      } catch (error) {
        if (!isRefusal(error)) throw error
        throw badRequest(`${error.message}\nThe config was refused; the previous config stays in force.`)
      }
    }),
  ]
}

export function createReloadRoutesOnStore(
  access: OperatorAccess,
  reloads: Pick<Store['reloads'], 'request'>,
): readonly ServerRoute[] {
  return [
    serveOperation(access, RELOAD_CONFIG, async () => {
      await reloads.request()
      return { applied: null }
    }),
  ]
}
