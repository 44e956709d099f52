import { fault } from '#kernel/base/errors'
import type { Logger } from '#kernel/base/logger'
import { jsonReply } from '#server/http/exchange'
import type { ServerRoute } from '#server/http/router'
import { isRefusal, type Reloaded } from '#server/reload'
import type { Store } from '#store/collet-store'
import { adminRoute, NO_STORE, type OperatorAccess, requireServerScope } from './access.ts'

const SCOPE = 'admin:reload'

/** Has the config read again, for the start token and the scope `admin:reload` (rule 29); the config itself is never taken from a request. */
export function createReloadRoutes(
  { readEverywhere, log }: { readEverywhere(): Promise<Reloaded>; readonly log: Logger },
  access: OperatorAccess,
): readonly ServerRoute[] {
  return [
    adminRoute(access, 'POST', '/admin/reload', async ({ principal }) => {
      requireServerScope(principal, SCOPE, access)
      log.info({ principal: principal.id }, 'asked to read the config again')
      try {
        return jsonReply(200, renderReloaded(await readEverywhere()), NO_STORE)
      } catch (error) {
        if (!isRefusal(error)) throw error
        throw fault('request_invalid', `${error.message}\nThe config was refused; the one before stays.`)
      }
    }),
  ]
}

/** The same where only the store is open: its servers read theirs within a second or two, and their logs say what came of it. */
export function createReloadRoutesOnStore(
  reloads: Pick<Store['reloads'], 'ask'>,
  access: OperatorAccess,
): readonly ServerRoute[] {
  return [
    adminRoute(access, 'POST', '/admin/reload', async ({ principal }) => {
      requireServerScope(principal, SCOPE, access)
      await reloads.ask()
      return jsonReply(200, { applied: null })
    }),
  ]
}

/** What an operator hears of a reload; `applied` is `null` where nobody has read anything yet. */
export interface RenderedReload {
  readonly applied: readonly string[] | null
  readonly needs_restart?: readonly string[]
  readonly refused?: readonly string[]
}

function renderReloaded({ applied, needRestart, refused }: Reloaded): RenderedReload {
  return { applied, needs_restart: needRestart, refused }
}
