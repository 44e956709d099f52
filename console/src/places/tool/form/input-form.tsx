/*
 * The input of a tool as a form made from its schema. `places/tool/try-panel.tsx` uses it. Values without a field are edited
 * as JSON.
 */

// The package's index would import its test packages.
import withTheme from '@rjsf/core/lib/withTheme.js'
import { Component, type ReactNode, useMemo } from 'react'
import { Note } from '../../../parts/meaning.tsx'
import type { Schema } from '../tool-data.ts'
import { WORDS } from '../words.tsx'
import { formValidator } from './form-check.ts'
import { AnyJsonField } from './form-fields.tsx'
import { toFormSchema } from './form-schema.ts'
import { TEMPLATES } from './form-templates.tsx'
import { WIDGETS } from './form-widgets.tsx'

interface InputFormProps {
  readonly schema: Schema
  readonly value: unknown
  readonly onChange: (value: unknown) => void
  /** The server's messages by path: names joined with a slash. */
  readonly errors: ReadonlyMap<string, string>
}

const Form = withTheme({
  templates: TEMPLATES,
  widgets: WIDGETS,
  fields: { FallbackField: AnyJsonField },
})

/** The input as fields, made from the tool's schema. Values without a field are edited as JSON. */
export function InputForm({ schema, value, onChange, errors }: InputFormProps): ReactNode {
  const formSchema = useMemo(() => toFormSchema(schema), [schema])
  return (
    <Boundary key={JSON.stringify(schema)}>
      <Form
        tagName="div"
        className="input-form"
        idPrefix="in"
        idSeparator="/"
        schema={formSchema}
        uiSchema={UI}
        validator={formValidator}
        formData={value}
        formContext={{ errors }}
        onChange={({ formData }, id) => {
          // A change without an id is a default that the library filled in.
          if (id !== undefined) onChange(withoutUndefined(formData))
        }}
        experimental_defaultFormStateBehavior={{
          emptyObjectFields: 'skipDefaults',
          arrayMinItems: { populate: 'never' },
          constAsDefaults: 'never',
        }}
        showErrorList={false}
        noValidate
        noHtml5Validate
      >
        {/* Replaces the library's button. */}
        <span hidden />
      </Form>
    </Boundary>
  )
}

const UI = { 'ui:globalOptions': { orderable: false, copyable: false } }

/** An emptied field is a missing member. */
function withoutUndefined(value: unknown): unknown {
  return value === undefined ? {} : JSON.parse(JSON.stringify(value))
}

/** The library cannot read every schema. */
class Boundary extends Component<{ readonly children: ReactNode }, { readonly hasFailed: boolean }> {
  override state = { hasFailed: false }

  static getDerivedStateFromError(): { hasFailed: boolean } {
    return { hasFailed: true }
  }

  override render(): ReactNode {
    if (!this.state.hasFailed) return this.props.children
    return <Note>{WORDS.thisSchemaHasNoForm}</Note>
  }
}
