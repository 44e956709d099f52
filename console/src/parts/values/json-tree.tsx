import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import { Button, CopyButton } from '../button.tsx'
import { toJson } from '../code.tsx'
import { TextInput } from '../field.tsx'
import { countOf, formatCount } from '../format.ts'
import { visibleText } from '../visible-text.ts'
import { type JsonRow, MemberRange, parentsOf, rowsOf, searchJson } from './json-rows.ts'
import { WORDS } from './words.ts'
import './json-tree.css'

/*
 * Shows a JSON value of any size as a folding tree, with search and download. The page of a call uses it. Only the rows in view are in
 * the document, and a search pauses between its steps, so that the page stays usable.
 */

const ROW_PX = 22
const MAX_TEXT = 300
const MAX_BOX_PX = 480

export function JsonTree({ value, label }: JsonTreeProps): ReactNode {
  const [open, setOpen] = useState<ReadonlySet<string>>(() => new Set(['']))
  const [selected, setSelected] = useState('')
  const box = useRef<HTMLDivElement>(null)
  const rows = useMemo(() => rowsOf(value, open), [value, open])
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
  })
  const toggle = ({ path, isOpen }: JsonRow): void => {
    const next = new Set(open)
    if (isOpen) next.delete(path)
    else next.add(path)
    setOpen(next)
  }
  const pending = useRef<string | undefined>(undefined)
  const reveal = (path: string): void => {
    pending.current = path
    setOpen(new Set([...open, ...parentsOf(value, path)]))
    setSelected(path)
  }
  useEffect(() => {
    const at = rows.findIndex(({ path }) => path === pending.current)
    if (pending.current === undefined || at === -1) return
    pending.current = undefined
    virtual.scrollToIndex(at, { align: 'center' })
  }, [rows, virtual])
  const onKeyDown = (event: KeyboardEvent): void => {
    const at = Math.max(
      0,
      rows.findIndex(({ path }) => path === selected),
    )
    const row = rows[at]
    if (row === undefined) return
    const go = (to: number): void => {
      const next = rows[Math.min(rows.length - 1, Math.max(0, to))]
      if (next === undefined) return
      setSelected(next.path)
      virtual.scrollToIndex(rows.indexOf(next), { align: 'auto' })
    }
    const acts: Readonly<Record<string, () => void>> = {
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at - 1),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: () => (row.size !== undefined && !row.isOpen ? toggle(row) : go(at + 1)),
      ArrowLeft: () =>
        row.isOpen
          ? toggle(row)
          : go(rows.findLastIndex(({ depth }, index) => index < at && depth < row.depth)),
      Enter: () => toggle(row),
    }
    const act = acts[event.key]
    if (act === undefined) return
    event.preventDefault()
    act()
  }
  return (
    <div className="code json-tree">
      <div className="code-head">
        <span className="grow clip">{label}</span>
        <DownloadJson value={value} label={label} />
        <CopyButton text={() => toJson(value)} label={`Copy ${label}`} />
      </div>
      <Search value={value} label={label} onFound={reveal} />
      <div
        ref={box}
        className="json-rows"
        role="tree"
        aria-label={label}
        tabIndex={0}
        aria-activedescendant={`${label}:${selected}`}
        style={{ height: Math.min(MAX_BOX_PX, rows.length * ROW_PX + 8) }}
        onKeyDown={onKeyDown}
      >
        <div style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, start }) => {
            const row = rows[index]
            return row === undefined ? null : (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the tree handles the keys of all rows.
              // biome-ignore lint/a11y/useFocusableInteractive: the tree has the focus and names the selected row.
              <div
                key={row.path}
                id={`${label}:${row.path}`}
                className="json-row"
                role="treeitem"
                aria-level={row.depth + 1}
                aria-selected={row.path === selected}
                aria-expanded={row.size === undefined ? undefined : row.isOpen}
                style={{ top: start, paddingInlineStart: `${row.depth * 1.25 + 0.75}rem` }}
                onClick={() => {
                  setSelected(row.path)
                  if (row.size !== undefined) toggle(row)
                }}
              >
                <Row row={row} />
              </div>
            )
          })}
        </div>
      </div>
    </div>
  )
}

interface JsonTreeProps {
  readonly value: unknown
  /** The accessible name: "Output". */
  readonly label: string
}

function Row({ row: { name, value, size, isOpen, depth } }: { readonly row: JsonRow }): ReactNode {
  return (
    <>
      <span className="json-fold" aria-hidden="true">
        {size === undefined ? '' : isOpen ? '▾' : '▸'}
      </span>
      {depth > 0 && (
        <span className="j-k">
          {visibleText(name)}
          {value instanceof MemberRange ? '' : ': '}
        </span>
      )}
      {size === undefined ? (
        <Scalar value={value} />
      ) : value instanceof MemberRange ? null : (
        <span className="dim">{sizeText(value, size)}</span>
      )}
    </>
  )
}

function sizeText(value: unknown, size: number): string {
  return Array.isArray(value) ? `[${countOf(size, 'item')}]` : `{${countOf(size, 'member')}}`
}

function Scalar({ value }: { readonly value: unknown }): ReactNode {
  const text = typeof value === 'string' ? JSON.stringify(value.slice(0, MAX_TEXT)) : String(value)
  const isCut = typeof value === 'string' && value.length > MAX_TEXT
  return (
    <>
      <bdi>{visibleText(text)}</bdi>
      {isCut && <span className="dim"> … {WORDS.characters(formatCount(value.length))}</span>}
    </>
  )
}

interface SearchProps {
  readonly value: unknown
  readonly label: string
  readonly onFound: (path: string) => void
}

function Search({ value, label, onFound }: SearchProps): ReactNode {
  const [text, setText] = useState('')
  const [found, setFound] = useState<readonly string[] | undefined>(undefined)
  const [at, setAt] = useState(0)
  const running = useRef(0)
  const show = (paths: readonly string[], index: number): void => {
    const path = paths[index]
    setAt(index)
    if (path !== undefined) onFound(path)
  }
  const search = async (wanted: string): Promise<void> => {
    running.current += 1
    const own = running.current
    setFound(undefined)
    const steps = searchJson(value, wanted)
    for (;;) {
      const step = steps.next()
      if (own !== running.current) return
      if (step.done === true) {
        setFound(step.value)
        return show(step.value, 0)
      }
      await new Promise((resolve) => setTimeout(resolve))
    }
  }
  const submit = (): void => {
    if (text === '') return
    if (found !== undefined && found.length > 0) show(found, (at + 1) % found.length)
    else void search(text)
  }
  return (
    <form
      className="json-search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault()
        submit()
      }}
    >
      <TextInput
        aria-label={`Search in ${label}`}
        placeholder={WORDS.searchPlaceholder}
        value={text}
        onChange={({ currentTarget }) => {
          setText(currentTarget.value)
          setFound(undefined)
          running.current += 1
        }}
      />
      <Button isSmall submits>
        {found !== undefined && found.length > 1 ? WORDS.next : WORDS.search}
      </Button>
      <output className="num dim">
        {found === undefined
          ? ''
          : found.length === 0
            ? WORDS.notFound
            : `${at + 1} of ${formatCount(found.length)}`}
      </output>
    </form>
  )
}

function DownloadJson({ value, label }: JsonTreeProps): ReactNode {
  const download = (): void => {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([toJson(value)], { type: 'application/json' }))
    link.download = `${label.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.json`
    link.click()
    URL.revokeObjectURL(link.href)
  }
  return (
    <Button isSmall kind="quiet" onClick={download}>
      {WORDS.download}
    </Button>
  )
}
