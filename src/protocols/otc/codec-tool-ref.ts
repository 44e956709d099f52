import { fault } from '#core/errors'
import { LATEST, parseToolName, type ToolRef } from '#core/ids'

const LATEST_SUFFIX = '@latest'
const MOST_REMEMBERED = 4_096
const LONGEST_REMEMBERED = 160

/** Ids repeat from call to call, so each is taken apart once; bounded in number and in length. */
const remembered = new Map<string, ToolRef>()

/** A tool by its id (OTC-43) or another of its names (docs/names.md); `@latest` exists only in the execute drafts (C-15). */
export function decodeToolRef(text: string, allowLatest: boolean): ToolRef {
  const known = remembered.get(text)
  if (known !== undefined) return known
  const ref = parseToolName(text)
  if (ref !== undefined) {
    if (text.length <= LONGEST_REMEMBERED) remember(text, ref)
    return ref
  }
  if (allowLatest && text.endsWith(LATEST_SUFFIX)) {
    const base = parseToolName(text.slice(0, -LATEST_SUFFIX.length))
    if (base?.version === LATEST) return base
  }
  throw fault(
    'request_invalid',
    `${quote(text)} is not the name of a tool. Write its id, Toolkit.Tool, Toolkit.Tool@1 or Toolkit.Tool@1.0.0, or another name it is listed under.`,
  )
}

function remember(text: string, ref: ToolRef): void {
  if (remembered.size >= MOST_REMEMBERED) remembered.clear()
  remembered.set(text, ref)
}

function quote(text: string): string {
  return JSON.stringify(text.length <= 80 ? text : `${text.slice(0, 80).toWellFormed()}…`)
}
