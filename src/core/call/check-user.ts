import { fault } from '#core/errors'
import type { Hooks } from '#core/ports/hooks'
import type { Principal } from '#core/principal'

/** T-27: whom a credential may act for is the operator's to say; without a word it may act for anybody. */
export async function checkUser(
  { bindUser }: Hooks,
  principal: Principal,
  userId: string | undefined,
): Promise<void> {
  if (bindUser === undefined || userId === undefined) return
  if (await bindUser(principal, userId)) return
  throw fault('not_authorized', 'This credential may not act for that user id.')
}
