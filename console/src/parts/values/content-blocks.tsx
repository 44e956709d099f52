import type { ReactNode } from 'react'
import { formatBytes } from '../format.ts'
import { Icon } from '../icon.tsx'
import { visibleText } from '../visible-text.ts'
import { WORDS } from './words.ts'
import './content-blocks.css'

/*
 * Shows MCP content blocks. Try it and the page of a call use it. The content is untrusted: text stays text, and files are never opened.
 */

type Block = Readonly<Record<string, unknown>>

function isRecord(value: unknown): value is Block {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const KINDS = new Set(['text', 'image', 'audio', 'resource', 'resource_link'])

/** Reads a value as MCP content blocks; `undefined` if it is something else. */
export function contentOf(value: unknown): readonly Block[] | undefined {
  const listed = isRecord(value) ? value.content : value
  if (!Array.isArray(listed) || listed.length === 0) return undefined
  const blocks = listed.filter(isRecord)
  const isContent = blocks.length === listed.length && blocks.every(({ type }) => KINDS.has(String(type)))
  return isContent ? blocks : undefined
}

/** Untrusted content: text stays text, images are of types that run nothing, files are saved and never opened. */
export function ContentBlocks({ blocks }: { readonly blocks: readonly Block[] }): ReactNode {
  return (
    <ol className="content-blocks" aria-label={WORDS.content}>
      {blocks.map((block, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks have no names and keep their order.
        <li key={index}>
          <Shown block={block} />
        </li>
      ))}
    </ol>
  )
}

/** Raster images only. An SVG can contain scripts. */
const PICTURES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif'])
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

function Shown({ block }: { readonly block: Block }): ReactNode {
  const { type, text, data, mimeType, resource, uri, name } = block
  if (type === 'text')
    return (
      <p className="content-text" dir="auto">
        {visibleText(String(text ?? ''))}
      </p>
    )
  if (type === 'resource_link')
    return <Named icon="external" name={String(name ?? '')} about={String(uri ?? '')} />
  if (type === 'resource' && isRecord(resource))
    return typeof resource.text === 'string' ? (
      <>
        <Named icon="pack" name={String(resource.uri ?? '')} about={String(resource.mimeType ?? 'text')} />
        <p className="content-text" dir="auto">
          {visibleText(resource.text)}
        </p>
      </>
    ) : (
      <File name={String(resource.uri ?? 'file')} kind={resource.mimeType} data={resource.blob} />
    )
  const isPicture = type === 'image' && PICTURES.has(String(mimeType)) && isBase64(data)
  if (isPicture)
    return (
      <img className="content-image" src={`data:${String(mimeType)};base64,${data}`} alt={WORDS.outputTool} />
    )
  return <File name={String(type)} kind={mimeType} data={data} />
}

function isBase64(data: unknown): data is string {
  return typeof data === 'string' && BASE64.test(data)
}

function Named({ icon, name, about }: NamedProps): ReactNode {
  return (
    <p className="row">
      <Icon name={icon} size={14} className="is-quiet" />
      <span className="clip strong" dir="auto">
        {visibleText(name)}
      </span>
      <code className="dim clip">{visibleText(about)}</code>
    </p>
  )
}

interface NamedProps {
  readonly icon: 'external' | 'pack'
  readonly name: string
  readonly about: string
}

function File({ name, kind, data }: { name: string; kind: unknown; data: unknown }): ReactNode {
  const bytes = isBase64(data) ? Math.floor((data.length * 3) / 4) : 0
  return (
    <p className="row">
      <Icon name="pack" size={14} className="is-quiet" />
      <span className="clip strong" dir="auto">
        {visibleText(name)}
      </span>
      <span className="dim">
        {String(kind ?? WORDS.unknownType)}, {formatBytes(bytes)}
      </span>
      {isBase64(data) && (
        <a className="link" download={fileName(name)} href={`data:application/octet-stream;base64,${data}`}>
          {WORDS.saveFile}
        </a>
      )}
    </p>
  )
}

function fileName(name: string): string {
  return (name.split(/[/\\]/).at(-1) ?? '').replace(/[^\w.-]/g, '_') || 'file'
}
