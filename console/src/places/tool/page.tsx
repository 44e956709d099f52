import { useQuery } from '@tanstack/react-query'
import { Link, useLocation, useParams } from '@tanstack/react-router'
import { type ReactNode, useEffect } from 'react'
import { ApiError } from '../../api/client.ts'
import { holdsScope, useSession } from '../../api/session.ts'
import { Page } from '../../app/page.tsx'
import { usePageCommand } from '../../app/page-command.tsx'
import { rememberTool } from '../../app/palette/recent-tools.ts'
import { PaneDivider } from '../../app/pane-divider.tsx'
import { useSearchState } from '../../app/search-state.ts'
import { useTimeRange } from '../../app/time-range.ts'
import { Select } from '../../parts/field.tsx'
import { formatCount } from '../../parts/format.ts'
import { ToolName } from '../../parts/meaning.tsx'
import { Empty, Failed, Loading, messageOf } from '../../parts/states.tsx'
import { About } from './about.tsx'
import { Changes, countChanges } from './changes.tsx'
import { Requirements } from './requirements.tsx'
import { Rules } from './rules.tsx'
import { Schemas } from './schemas.tsx'
import { type ToolDetails, toolQuery, usageQuery } from './tool-data.ts'
import { TryPanel } from './try-panel.tsx'
import './tool.css'
import { WORDS } from './words.tsx'

/*
 * The page of one tool: documentation, with Try it beside it. The router loads it. The version is in the address.
 */

/** One tool: documentation, and Try it beside it. The version is in the address. */
export function ToolPage(): ReactNode {
  const { id = '' } = useParams({ strict: false })
  const [{ version = '' }] = useSearchState()
  const { data: tool, error, refetch } = useQuery(toolQuery(id, version))
  usePageCommand(`collet tools show ${id}`)
  if (tool !== undefined) return <Shown tool={tool} />
  return (
    <Page title={id} heading={<ToolName name={id} />}>
      {error === null ? (
        <Loading what={id} />
      ) : error instanceof ApiError && error.status === 404 ? (
        <Unknown error={error} />
      ) : (
        <Failed what={WORDS.toolCouldNotBeRead} error={error} onRetry={() => void refetch()} />
      )}
    </Page>
  )
}

function Unknown({ error }: { readonly error: unknown }): ReactNode {
  return (
    <Empty
      title={WORDS.thereNoSuchTool}
      actions={
        <Link className="btn sm" to="/tools">
          {WORDS.openTools}
        </Link>
      }
    >
      {messageOf(error)}
    </Empty>
  )
}

function Shown({ tool }: { readonly tool: ToolDetails }): ReactNode {
  const viewer = useSession()?.principal ?? null
  useEffect(() => rememberTool(viewer, tool.base), [viewer, tool.base])
  return (
    <Page
      title={tool.base}
      before={
        <nav className="crumb" aria-label={WORDS.breadcrumb}>
          <Link to="/tools">{WORDS.tools}</Link>
          <span aria-hidden="true">/</span>
        </nav>
      }
      heading={<ToolName name={tool.base} />}
      sub={<Versions tool={tool} />}
      actions={<OnThisPage tool={tool} />}
    >
      <div className="split tool-split">
        <article className="docs">
          <About tool={tool} />
          <Rules tool={tool} />
          <Requirements tool={tool} />
          <Schemas tool={tool} />
          <Changes tool={tool} />
        </article>
        <TryPanel key={tool.id} tool={tool} />
        <PaneDivider name="tool" label={WORDS.widthDocumentation} />
      </div>
    </Page>
  )
}

function Versions({ tool }: { readonly tool: ToolDetails }): ReactNode {
  const [, setSearch] = useSearchState()
  const [latest] = tool.versions
  const label = (version: string): string => (version === latest?.version ? `${version} latest` : version)
  if (tool.versions.length < 2) return <span className="mono nowrap">{label(tool.version)}</span>
  return (
    <Select
      isBare
      isMono
      aria-label={WORDS.version}
      value={tool.version}
      options={tool.versions.map(({ version }) => ({ value: version, label: label(version) }))}
      onChange={(event) => {
        const version = event.currentTarget.value
        setSearch({ version: version === latest?.version ? '' : version }, { isStep: true })
      }}
    />
  )
}

function OnThisPage({ tool }: { readonly tool: ToolDetails }): ReactNode {
  const maySee = holdsScope(useSession()?.principal, 'admin:calls')
  const [range] = useTimeRange('24h')
  const { data: usage } = useQuery({ ...usageQuery(tool.base, range), enabled: maySee })
  return (
    <nav className="tabs in-bar" aria-label={WORDS.onThisPage}>
      <Part to="about">{WORDS.about}</Part>
      <Part to="try" className="narrow-only">
        {WORDS.try}
      </Part>
      <Part to="schemas">{WORDS.schemas}</Part>
      <Part to="changes">{WORDS.changes2(<span className="count">{countChanges(tool)}</span>)}</Part>
      {maySee && (
        <Link to="/calls" search={{ q: `tool:${tool.base}` }}>
          {WORDS.calls}
          {usage !== undefined && <span className="count">{formatCount(usage.calls)}</span>}
        </Link>
      )}
    </nav>
  )
}

/** Scrolls to a part of the page. */
function Part({ to, children, className }: PartProps): ReactNode {
  const { hash } = useLocation()
  useEffect(() => {
    if (hash === to) document.getElementById(to)?.scrollIntoView()
  }, [hash, to])
  const isHere = hash === to || (hash === '' && to === 'about')
  return (
    <Link
      to="."
      search={true}
      hash={to}
      className={className}
      activeOptions={{ includeHash: true }}
      activeProps={{ 'aria-current': 'true' }}
      aria-current={isHere ? 'true' : undefined}
      onClick={() => document.getElementById(to)?.scrollIntoView()}
    >
      {children}
    </Link>
  )
}

interface PartProps {
  readonly to: 'about' | 'try' | 'schemas' | 'changes'
  readonly children: ReactNode
  readonly className?: string
}
