import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type ReactNode, useMemo, useRef } from 'react'
import { holdsScope, holdsServerScope, useSession } from '../../api/session.ts'
import {
  type FoundTool,
  type SearchableTools,
  toolCallsQuery,
  toolCostQuery,
  toolCountQuery,
  toolsQuery,
} from '../../api/tools.ts'
import { Page } from '../../app/page.tsx'
import { Command, usePageCommand } from '../../app/page-command.tsx'
import { ViewsMenu } from '../../app/views/views-menu.tsx'
import { Button } from '../../parts/button.tsx'
import { countOf, formatCount } from '../../parts/format.ts'
import { Icon } from '../../parts/icon.tsx'
import { Banner } from '../../parts/meaning.tsx'
import { Empty, Failed, Loading } from '../../parts/states.tsx'
import './tools.css'
import { visibleText } from '../../parts/visible-text.ts'
import { ToolsBar } from './filters.tsx'
import { FILTER_NAMES, type ToolQuery, useToolQuery } from './tool-query.ts'
import { type ToolRows, ToolTable } from './tool-table.tsx'
import { WORDS } from './words.tsx'

/*
 * The page with all tools that the person may see. The router loads it. The list is fetched again at an interval.
 */

/** The list is polled because the state of a source can change at any time. An unchanged list costs only a 304. */
const REFETCH_MS = 15_000

/** All tools that the person may see, with search, filters and order. */
export function ToolsPage(): ReactNode {
  const query = useToolQuery()
  const mayAdd = holdsServerScope(useSession()?.principal, 'admin:sources')
  const { data, error, refetch } = useQuery({ ...toolsQuery, refetchInterval: REFETCH_MS })
  usePageCommand(query.command)
  return (
    <Page
      title={WORDS.tools}
      sub={data === undefined ? undefined : countOf(data.listing.tools.length, WORDS.tool)}
      actions={
        <>
          <ViewsMenu page="/tools" />
          <Link className="btn quiet" to="/models">
            {WORDS.whatModelsSee}
          </Link>
          {mayAdd && (
            <Link className="btn" to="/sources">
              <Icon name="plus" size={14} />
              {WORDS.addSource}
            </Link>
          )}
        </>
      }
    >
      <LongList />
      {data !== undefined && <Catalog tools={data} query={query} />}
      {data === undefined && error === null && <Loading what={WORDS.tools2} rows={10} />}
      {data === undefined && error !== null && (
        <Failed what={WORDS.toolsCouldNotBeListed} error={error} onRetry={() => void refetch()}>
          <Command text="collet doctor" />
        </Failed>
      )}
    </Page>
  )
}

/** A list with more tools than this is worth a remark. */
const LONG_LIST = 50

/** Says what a long list costs a model, unless models search it. */
function LongList(): ReactNode {
  const { data: count = 0 } = useQuery({ ...toolCountQuery, enabled: false })
  const { data } = useQuery({ ...toolCostQuery(), enabled: count > LONG_LIST })
  if (data === undefined || data.discovery === 'search' || data.list.tools <= LONG_LIST) return null
  return (
    <Banner
      icon="alert"
      action={
        <Link className="btn sm" to="/models">
          {WORDS.whatModelsSee}
        </Link>
      }
    >
      {WORDS.modelGetsThisListReads(formatCount(data.list.tokens))}
    </Banner>
  )
}

function Catalog({
  tools,
  query,
}: {
  readonly tools: SearchableTools
  readonly query: ToolQuery
}): ReactNode {
  // Only people who may see calls can sort by the number of calls.
  const mayCount = holdsScope(useSession()?.principal, 'admin:calls')
  const wantsCalls = query.order === 'calls' && mayCount
  const { data: calls } = useQuery({ ...toolCallsQuery, enabled: wantsCalls })
  const found = useFound(tools, query, calls)
  const rows = useRef<ToolRows>(null)
  const navigate = useNavigate()
  const openFirst = async (): Promise<void> => {
    const [first] = found
    if (first === undefined) return
    await query.settle()
    await navigate({ to: '/tools/$id', params: { id: first.tool.id } })
  }
  if (tools.listing.tools.length === 0) return <NoTools />
  return (
    <>
      <ToolsBar
        query={query}
        tools={tools}
        found={`${formatCount(found.length)} found`}
        mayCount={mayCount}
        onDown={() => rows.current?.enter()}
        onEnter={() => void openFirst()}
      />
      {found.length === 0 ? (
        <NothingFound query={query} />
      ) : (
        <ToolTable ref={rows} found={found} sources={tools.listing.sources} />
      )}
    </>
  )
}

function useFound(
  tools: SearchableTools,
  { text, filters, order }: ToolQuery,
  calls: ReadonlyMap<string, number> | undefined,
): readonly FoundTool[] {
  return useMemo(() => tools.find({ text, filters, order, calls }), [tools, text, filters, order, calls])
}

function NothingFound({ query }: { readonly query: ToolQuery }): ReactNode {
  const { text, filters } = query
  const set = FILTER_NAMES.flatMap((name) => {
    const values = filters[name] ?? []
    return values.length === 0 ? [] : [`${name} ${values.join(' or ')}`]
  })
  const words = text.trim() === '' ? [] : [`"${text.trim()}"`]
  return (
    <Empty
      title={visibleText(WORDS.noToolMatches([...words, ...set].join(', ')))}
      actions={
        <Button isSmall onClick={query.clear}>
          {WORDS.clearSearchFilters}
        </Button>
      }
    >
      {WORDS.namesPurposeTagsFieldsAre}
    </Empty>
  )
}

function NoTools(): ReactNode {
  return (
    <Empty
      title={WORDS.noToolsYet}
      actions={
        <Link className="btn sm" to="/sources">
          {WORDS.addSource}
        </Link>
      }
    >
      {WORDS.toolsAppearHereAsSoon(<Command text="collet import URL" />)}
    </Empty>
  )
}
