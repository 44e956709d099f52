import { checkDecided, renderPinDiff } from '#server/admin/pins'
import type { Arguments } from './arguments.ts'
import type { CommandContext } from './command.ts'
import { actAtStore, asksServer } from './operator-credential.ts'
import { askAboutPins, PIN_DIFF, type PinDiffRow, type PinOption, withPins } from './pin-access.ts'

/** Says yes or no to what waits for a tool, on the store or through a server; the tool as it is after that. */
export async function decidePin(
  verb: 'accept' | 'reject',
  tool: string,
  args: Arguments<PinOption | 'hash'>,
  context: CommandContext,
): Promise<PinDiffRow | undefined> {
  const hash = args.text('hash')
  const body = hash === undefined ? {} : { hash }
  if (asksServer(args)) {
    const path = `/${encodeURIComponent(tool)}/${verb}`
    return await askAboutPins({ method: 'POST', path, body, answer: PIN_DIFF }, args, context)
  }
  actAtStore(context)
  return await withPins(args, context, async (desk, by) => {
    checkDecided(await desk[verb](tool, { by, ...body }), tool)
    const after = await desk.diff(tool)
    return after === undefined ? undefined : renderPinDiff(after)
  })
}
