import type { EntryKind } from '#kernel/base/ids'
import type { Principal } from '#kernel/base/principal'
import type { CatalogChanges } from '#kernel/tool/catalog-changes'

/*
 * The lists whose changes clients are notified of, and the kinds of entries in each (MCP-46, MCP-135).
 * `streams.ts` and `stdio.ts` use it.
 * Invariant: a client is notified only of lists in which an entry that it may see has changed.
 */

interface ChangingList {
  /** The member of `subscriptions/listen` that requests its notifications. */
  readonly request: string
  readonly method: string
  /** `undefined` stands for tools. */
  readonly kinds: readonly (EntryKind | undefined)[]
}

const TOOLS: ChangingList = {
  request: 'toolsListChanged',
  method: 'notifications/tools/list_changed',
  kinds: [undefined, 'appTool'],
}
const PROMPTS: ChangingList = {
  request: 'promptsListChanged',
  method: 'notifications/prompts/list_changed',
  kinds: ['prompt'],
}
const RESOURCES: ChangingList = {
  request: 'resourcesListChanged',
  method: 'notifications/resources/list_changed',
  kinds: ['resource', 'template', 'resources', 'skill'],
}

export const LISTS: readonly ChangingList[] = [TOOLS, PROMPTS, RESOURCES]

/** For one change of the catalog: true if it affects the entries of a kind that the principal may see. */
export type ListChange = (principal: Principal, kind?: EntryKind) => boolean

export function listIsAffected(
  { kinds }: ChangingList,
  principal: Principal,
  isAffected: ListChange,
): boolean {
  return kinds.some((kind) => isAffected(principal, kind))
}

/** Calls `notify` with the method of each list that changes for the principal. Returns the function that stops it. */
export function followLists(
  changes: CatalogChanges,
  principal: Principal,
  lists: readonly ChangingList[],
  notify: (method: string) => void,
): () => void {
  if (lists.length === 0) return () => undefined
  return changes.listen((isAffected) => {
    for (const list of lists) if (listIsAffected(list, principal, isAffected)) notify(list.method)
  })
}
