import { type ReactNode, useMemo } from 'react'
import { useSearchState } from '../../app/search-state.ts'
import { Code } from '../../parts/code.tsx'
import { Segment } from '../../parts/tabs.tsx'
import { visibleJson, visibleText } from '../../parts/visible-text.ts'
import { describeSchema, typeWords } from './schema-words.ts'
import type { Schema, ToolDetails } from './tool-data.ts'
import { WORDS } from './words.tsx'

/*
 * Input and output of a tool: readable, as JSON Schema, and as sent to models. `page.tsx` uses it. The view is in the
 * address.
 */

const VIEWS = [
  { value: 'readable', label: WORDS.readable },
  { value: 'raw', label: WORDS.jsonSchema },
  { value: 'model', label: WORDS.modelsView },
] as const
const MODELS = [
  { value: 'openai', label: WORDS.openai },
  { value: 'anthropic', label: WORDS.anthropic },
  { value: 'mcp', label: 'MCP' },
] as const
type ViewName = (typeof VIEWS)[number]['value']
type ModelName = (typeof MODELS)[number]['value']

/** Input and output: readable, as JSON Schema, and as sent to models. The view is in the address. */
export function Schemas({ tool }: { readonly tool: ToolDetails }): ReactNode {
  const [search, setSearch] = useSearchState()
  const view = VIEWS.find(({ value }) => value === search.schema)?.value ?? 'readable'
  const model = MODELS.find(({ value }) => value === search.model)?.value ?? 'openai'
  return (
    <section id="schemas" className="stack-3" aria-label={WORDS.schemas}>
      <div className="sec-head">
        <h2 className="grow">{view === 'model' ? WORDS.modelDefinition : WORDS.input}</h2>
        <Segment<ViewName>
          label={WORDS.viewSchema}
          value={view}
          options={VIEWS}
          onChange={(schema) => setSearch({ schema: schema === 'readable' ? '' : schema })}
        />
      </div>
      {view === 'model' ? (
        <>
          <Segment<ModelName>
            label={WORDS.format}
            value={model}
            options={MODELS}
            onChange={(next) => setSearch({ model: next === 'openai' ? '' : next })}
          />
          <Code text={visibleJson(tool.model[model])} label={WORDS.definitionForModels} isJson />
        </>
      ) : (
        <>
          <SchemaView schema={tool.input_schema} label={WORDS.inputSchema} isRaw={view === 'raw'} />
          <h2>{WORDS.output}</h2>
          <SchemaView schema={tool.output_schema} label={WORDS.outputSchema} isRaw={view === 'raw'} />
        </>
      )}
    </section>
  )
}

function SchemaView({ schema, label, isRaw }: SchemaViewProps): ReactNode {
  if (schema === null) return <p className="soft">{WORDS.none}</p>
  if (isRaw) return <Code text={visibleJson(schema)} label={label} isJson />
  return <Readable schema={schema} />
}

interface SchemaViewProps {
  readonly schema: Schema | null
  readonly label: string
  readonly isRaw: boolean
}

function Readable({ schema }: { readonly schema: Schema }): ReactNode {
  const { rows, isCut } = useMemo(() => describeSchema(schema), [schema])
  if (rows.length === 0)
    return (
      <p className="soft">
        {Object.keys(schema).length === 0 ? WORDS.noOutputSchema : visibleText(typeWords(schema))}
        {typeof schema.description === 'string' && (
          <>
            {' · '}
            <bdi>{visibleText(schema.description)}</bdi>
          </>
        )}
      </p>
    )
  return (
    <>
      <ul className="props">
        {rows.map((row) => (
          <li key={row.path}>
            <div className="row wrap">
              <code className="strong">{visibleText(row.path)}</code>
              <span className="dim" dir="auto">
                {visibleText(row.type)}
              </span>
              {row.isRequired && <span className="req">{WORDS.required}</span>}
            </div>
            {row.description !== undefined && (
              <p className="soft" dir="auto">
                {visibleText(row.description)}
              </p>
            )}
            {row.choices.length > 0 && (
              <p className="soft">{WORDS.one(<code>{visibleText(row.choices.join(', '))}</code>)}</p>
            )}
            {row.defaultValue !== undefined && (
              <p className="soft">{WORDS.defaultWord3(<code>{visibleText(row.defaultValue)}</code>)}</p>
            )}
          </li>
        ))}
      </ul>
      {isCut && <p className="dim">{WORDS.nestedValuesAreLeftOut}</p>}
    </>
  )
}
