import { CallFailure, type ColletClient } from '#client/index'
import { LATEST, parseToolRef } from '#core/tool-id'

/** Whether a refused call named a tool that the server does not list: on the wire all refusals look alike (OTC-63). */
export async function isUnknownTool(asked: string, client: Pick<ColletClient, 'list'>): Promise<boolean> {
  const ref = parseToolRef(asked)
  const names = new Set(ref === undefined ? [asked] : [asked, `${ref.base}@${ref.version}`])
  try {
    const listed = await client.list()
    return !listed.some(
      ({ id }) => names.has(id) || (ref?.version === LATEST && parseToolRef(id)?.base === ref.base),
    )
  } catch (error) {
    if (error instanceof CallFailure) return false
    throw error
  }
}
