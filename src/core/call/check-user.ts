import { mayNameUser } from '#core/credentials/vault-owner'
import { fault, type ToolError } from '#core/errors'
import type { Hooks } from '#core/ports/hooks'
import type { Principal } from '#core/principal'
import type { Tool } from '#core/tool'

/**
 * T-27: whether the user a caller names is proven: the subject of its own token, or named by a credential that may assert
 * users, or vouched for by the operator's hook. The hook's `false` refuses; without a hook the rest is the caller's word.
 */
export async function proveUser(
  { bindUser }: Hooks,
  principal: Principal,
  userId: string | undefined,
): Promise<boolean> {
  if (userId === undefined || userId === '') return false
  if (bindUser === undefined) return mayNameUser(principal, userId)
  if (await bindUser(principal, userId)) return true
  throw fault('not_authorized', 'This credential may not act for that user id.')
}

/** What a call that names a user without proof is told by a tool that needs one: nothing it could add would help. */
export function unprovenUser({ name }: Pick<Tool, 'name'>): ToolError {
  return fault(
    'not_authorized',
    `${name} needs a user id that is proven, and this credential cannot prove the one it names. Nothing was run.`,
    {
      developerMessage:
        "Call with the user's own token (its `sub` is the user id), or with a credential that has the scope users:assert.",
    },
  )
}
