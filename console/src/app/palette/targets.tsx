import { queryOptions, useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { LIST_KEYS } from '../../../../src/admin-api/keys.ts'
import type { AnswerOf } from '../../../../src/admin-api/operation.ts'
import type { SourceList } from '../../../../src/admin-api/sources.ts'
import { requestJson } from '../../api/client.ts'
import { holdsScope, holdsServerScope, type Principal, useSession } from '../../api/session.ts'
import { toolsQuery } from '../../api/tools.ts'
import type { IconName } from '../../parts/icon.tsx'
import { ToolName } from '../../parts/meaning.tsx'
import { visibleText } from '../../parts/visible-text.ts'
import { PAGES, pagesFor } from '../pages.ts'
import { type Command, useCommands } from './commands.ts'
import { recentTools } from './recent-tools.ts'
import { SECTION_NAMES, WORDS } from './words.ts'

/**
 * What the palette finds for a text: pages and their sections, commands, tools, and the sources, keys, approvals and calls of the server.
 * `palette.tsx` lists it. Invariant: lists that the credential may not see are not requested, because each refusal is recorded.
 */

export interface Target {
  readonly key: string
  readonly icon: IconName
  readonly label: ReactNode
  /** What kind of result it is, or its shortcut. */
  readonly hint: string
  /** What it runs; a target without it opens a page. */
  readonly command?: Command
  readonly go: () => void
}

const MAX_TOOLS = 8
const MAX_OTHERS = 5
/** Ids of calls have at least this length. */
const CALL_ID = /^[\w-]{10,}$/

export function useTargets(text: string): readonly Target[] {
  const navigate = useNavigate()
  const session = useSession()
  const principal = session?.principal
  const commands = useCommands()
  const { data: tools } = useQuery(toolsQuery)
  const found = useThings(principal ?? null, text !== '')
  const isMatch = matcher(text)
  const pages = pagesFor(session)
    .filter(({ name }) => isMatch(name))
    .map(
      ({ to, name, icon, key }): Target => ({
        ...{ key: to, icon, label: name, hint: `g ${key}` },
        go: () => void navigate({ to }),
      }),
    )
  const toTool = (id: string): Target => ({
    ...{ key: `tool ${id}`, icon: 'pack', label: <ToolName name={id} />, hint: '' },
    go: () => void navigate({ to: '/tools/$id', params: { id } }),
  })
  if (text === '') {
    // A recent tool may no longer exist or no longer be visible to this person.
    const visible = recentTools(principal ?? null).filter(
      (id) => tools?.listing.tools.some((tool) => tool.id === id) === true,
    )
    return [...pages, ...visible.map(toTool)]
  }
  const toolIds = (tools?.find({ text, filters: {} }) ?? []).slice(0, MAX_TOOLS).map(({ tool }) => tool.id)
  const mayCalls = holdsScope(principal, 'admin:calls')
  const [firstTool] = toolIds
  return [
    ...pages,
    ...commands
      .filter(({ label, synonyms }) => isMatch(`${label} ${synonyms}`))
      .map(
        (command): Target => ({
          ...{ key: command.id, icon: command.icon, label: command.label, hint: WORDS.command, command },
          go: () => undefined,
        }),
      ),
    ...SECTIONS.filter(({ name, isFor }) => isMatch(name) && isFor(principal ?? null)).map(
      ({ name, to, search, hash }): Target => ({
        ...{ key: `section ${name}`, icon: PAGES.find((page) => page.to === to)?.icon ?? 'tools' },
        ...{ label: name, hint: WORDS.page },
        go: () => void navigate({ to, search: search ?? {}, ...(hash === undefined ? {} : { hash }) }),
      }),
    ),
    ...toolIds.map(toTool),
    ...(firstTool !== undefined && mayCalls
      ? [
          {
            ...({
              key: 'calls',
              icon: 'calls',
              label: WORDS.callsWith(firstTool),
              hint: WORDS.call,
            } as const),
            go: () => void navigate({ to: '/calls', search: { q: `tool:${firstTool}` } }),
          },
        ]
      : []),
    ...found.sources
      .filter(({ key }) => isMatch(key))
      .slice(0, MAX_OTHERS)
      .map(
        ({ key }): Target => ({
          ...{ key: `source ${key}`, icon: 'sources', label: visibleText(key), hint: WORDS.source },
          go: () => void navigate({ to: '/tools', search: { source: key } }),
        }),
      ),
    ...found.keys
      .filter(({ name }) => isMatch(name))
      .slice(0, MAX_OTHERS)
      .map(
        ({ name }): Target => ({
          ...{ key: `key ${name}`, icon: 'key', label: visibleText(name), hint: WORDS.key },
          go: () => void navigate({ to: '/access', search: { section: 'keys' } }),
        }),
      ),
    ...found.approvals
      .filter(({ tool, principal: caller, id }) => isMatch(`${tool} ${caller} ${id}`))
      .slice(0, MAX_OTHERS)
      .map(
        ({ id, tool, principal: caller }): Target => ({
          ...{ key: `approval ${id}`, icon: 'approvals', hint: WORDS.approval },
          label: visibleText(WORDS.requestedBy(tool, caller)),
          go: () => void navigate({ to: '/approvals/$id', params: { id } }),
        }),
      ),
    ...(mayCalls ? callTargets(text, navigate) : []),
  ]
}

function callTargets(text: string, navigate: ReturnType<typeof useNavigate>): readonly Target[] {
  const search: Target = {
    ...{ key: 'search calls', icon: 'calls', label: WORDS.searchCalls(text), hint: WORDS.call },
    go: () => void navigate({ to: '/calls', search: { q: text } }),
  }
  if (!CALL_ID.test(text)) return [search]
  const open: Target = {
    ...{ key: 'open call', icon: 'calls', label: WORDS.openCall(text), hint: WORDS.call },
    go: () => void navigate({ to: '/calls/$record', params: { record: text } }),
  }
  return [open, search]
}

/** Every word of the query begins a word of the text. */
function matcher(query: string): (text: string) => boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean)
  return (text) => {
    const parts = text.toLowerCase().split(/[^\p{L}\p{N}]+/u)
    return words.every(
      (word) => text.toLowerCase().includes(word) && parts.some((part) => part.startsWith(word)),
    )
  }
}

interface Section {
  readonly name: string
  readonly to: '/access' | '/settings' | '/models'
  readonly search?: Readonly<Record<string, string>>
  readonly hash?: string
  readonly isFor: (principal: Principal | null) => boolean
}

const isSignedIn = (principal: Principal | null): boolean => principal !== null
const managesKeys = (principal: Principal | null): boolean => holdsScope(principal, 'admin:keys')
const everyone = (): boolean => true

const SECTIONS: readonly Section[] = [
  { name: SECTION_NAMES.keys, to: '/access', search: { section: 'keys' }, isFor: managesKeys },
  { name: SECTION_NAMES.toolsets, to: '/access', search: { section: 'toolsets' }, isFor: managesKeys },
  {
    ...{ name: SECTION_NAMES.secrets, to: '/access', search: { section: 'secrets' } },
    isFor: (principal) => holdsScope(principal, 'admin:secrets'),
  },
  { name: SECTION_NAMES.accounts, to: '/access', search: { section: 'accounts' }, isFor: isSignedIn },
  { name: SECTION_NAMES.clients, to: '/settings', hash: 'clients', isFor: everyone },
  {
    ...{ name: SECTION_NAMES.limits, to: '/settings', hash: 'limits' },
    isFor: (principal) => holdsScope(principal, 'admin:calls'),
  },
  { name: SECTION_NAMES.appearance, to: '/settings', hash: 'appearance', isFor: everyone },
  { name: SECTION_NAMES.models, to: '/models', isFor: everyone },
]

interface Things {
  readonly sources: readonly { readonly key: string }[]
  readonly keys: readonly { readonly name: string }[]
  readonly approvals: readonly { readonly id: string; readonly tool: string; readonly principal: string }[]
}

const STALE_MS = 30_000

const sourcesQuery = queryOptions({
  queryKey: ['palette', 'sources'],
  queryFn: async ({ signal }) => (await requestJson<SourceList>('/admin/sources', { signal })).sources,
  staleTime: STALE_MS,
})

const keysQuery = queryOptions({
  queryKey: ['palette', 'keys'],
  async queryFn({ signal }) {
    const { keys, configured } = await requestJson<AnswerOf<typeof LIST_KEYS>>('/admin/keys', { signal })
    const names = [...configured, ...keys].map(({ principal }) => principal)
    return [...new Set(names)].map((name) => ({ name }))
  },
  staleTime: STALE_MS,
})

const approvalsQuery = queryOptions({
  queryKey: ['palette', 'approvals'],
  queryFn: async ({ signal }) =>
    (
      await requestJson<{ readonly approvals: Things['approvals'] }>(
        '/admin/approvals?state=pending&limit=100',
        {
          signal,
        },
      )
    ).approvals,
  staleTime: STALE_MS,
})

/** What the server holds, requested when the person types. */
function useThings(principal: Principal | null, isOn: boolean): Things {
  const sources = useQuery({
    ...sourcesQuery,
    enabled: isOn && holdsServerScope(principal, 'admin:sources'),
  })
  const keys = useQuery({ ...keysQuery, enabled: isOn && holdsScope(principal, 'admin:keys') })
  const approvals = useQuery({
    ...approvalsQuery,
    enabled: isOn && holdsScope(principal, 'approvals:respond'),
  })
  return { sources: sources.data ?? [], keys: keys.data ?? [], approvals: approvals.data ?? [] }
}
