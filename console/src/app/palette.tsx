import {
  Combobox,
  ComboboxItem,
  ComboboxList,
  ComboboxProvider,
  Dialog,
  useComboboxStore,
} from '@ariakit/react'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { useSession } from '../api/session.ts'
import { toolsQuery } from '../api/tools.ts'
import { useKey } from '../keyboard.ts'
import { Icon, type IconName } from '../parts/icon.tsx'
import { ToolName } from '../parts/meaning.tsx'
import { useStore } from '../store.ts'
import { openDialog, pagesFor } from './pages.ts'
import { recentTools } from './recent-tools.ts'

/*
 * Finds pages, tools and the calls to a tool by a few letters. Used by `frame.tsx`. Without a query, it lists pages and recent
 * tools.
 */

const MAX_TOOLS = 8

export function Palette(): ReactNode {
  const isOpen = useStore(openDialog) === 'palette'
  const close = (): void => openDialog.set('nothing')
  useKey('mod+k', () => openDialog.set(isOpen ? 'nothing' : 'palette'))
  return (
    <Dialog
      open={isOpen}
      onClose={close}
      className="palette over"
      aria-label="Jump to"
      backdrop={<div className="backdrop" />}
      unmountOnHide
    >
      <Jump onDone={close} />
    </Dialog>
  )
}

function Jump({ onDone }: { readonly onDone: () => void }): ReactNode {
  const [text, setText] = useState('')
  const targets = useTargets(text.trim())
  const list = useComboboxStore({ open: true, value: text, setValue: setText })
  const choose = (target: Target | undefined): void => {
    if (target === undefined) return
    onDone()
    target.go()
  }
  // A fast typist may press Enter before the first result is selected.
  const chosen = (): Target | undefined =>
    targets.find((_, index) => idOf(index) === list.getState().activeId) ?? targets[0]
  return (
    <ComboboxProvider store={list}>
      <div className="row palette-q">
        <Icon name="search" size={14} className="dim" />
        <Combobox
          className="palette-input"
          aria-label="Page or tool"
          placeholder="Page or tool"
          autoSelect="always"
          data-autofocus="true"
          onChange={() => list.setActiveId(undefined)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter') return
            event.preventDefault()
            choose(chosen())
          }}
        />
        <kbd>esc</kbd>
      </div>
      <ComboboxList alwaysVisible aria-label="Results">
        {targets.map((target, index) => (
          <ComboboxItem
            key={target.key}
            id={idOf(index)}
            className="palette-item"
            value={target.key}
            setValueOnClick={false}
            hideOnClick={false}
            focusOnHover
            onClick={() => choose(target)}
          >
            <Icon name={target.icon} size={14} />
            <span className="grow clip">{target.label}</span>
            {target.hint !== undefined && <kbd>{target.hint}</kbd>}
          </ComboboxItem>
        ))}
      </ComboboxList>
      {targets.length === 0 && <p className="palette-none soft">No page or tool matches "{text}".</p>}
    </ComboboxProvider>
  )
}

function idOf(index: number): string {
  return `jump-${index}`
}

interface Target {
  readonly key: string
  readonly icon: IconName
  readonly label: ReactNode
  readonly hint?: string
  readonly go: () => void
}

function useTargets(text: string): readonly Target[] {
  const navigate = useNavigate()
  const session = useSession()
  const recent = recentTools(session?.principal ?? null)
  const { data } = useQuery(toolsQuery)
  const lower = text.toLowerCase()
  const pages = pagesFor(session)
    .filter(({ name }) => name.toLowerCase().startsWith(lower))
    .map(
      ({ to, name, icon, key }): Target => ({
        key: to,
        icon,
        label: name,
        hint: `g ${key}`,
        go: () => void navigate({ to }),
      }),
    )
  const toTool = (id: string): Target => ({
    key: `tool ${id}`,
    icon: 'pack',
    label: <ToolName name={id} />,
    go: () => void navigate({ to: '/tools/$id', params: { id } }),
  })
  // A recent tool may no longer exist or no longer be visible to this person.
  const visible = recent.filter((id) => data?.listing.tools.some((tool) => tool.id === id) === true)
  if (text === '') return [...pages, ...visible.map(toTool)]
  const found = data?.find({ text, filters: {} }).slice(0, MAX_TOOLS) ?? []
  const tools = found.map(({ tool: { id } }) => id)
  const toCalls = (id: string): Target => ({
    key: 'calls',
    icon: 'calls',
    label: (
      <>
        Calls with <code>tool:{id}</code>
      </>
    ),
    go: () => void navigate({ to: '/calls', search: { q: `tool:${id}` } }),
  })
  return [...pages, ...tools.map(toTool), ...tools.slice(0, 1).map(toCalls)]
}
