// Says whether a file can be believed to be measurements: by the book's own JSON Schema, and by limits besides it.
"use strict";

globalThis.machines ??= {};

{
  const ANNOTATIONS = ["$schema", "$id", "$defs", "title", "description", "format"];
  const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  const TYPES = {
    object: isObject,
    array: Array.isArray,
    string: (value) => typeof value === "string",
    number: (value) => typeof value === "number",
    integer: Number.isInteger,
    boolean: (value) => typeof value === "boolean",
    null: (value) => value === null,
  };
  const listed = (value) => (Array.isArray(value) ? value : [value]);
  const firstOf = (items, find) => {
    for (const item of items) {
      const problem = find(item);
      if (problem) return problem;
    }
    return null;
  };

  /** Checks by JSON Schema, as far as the book's schemas use it; each rule returns a problem or null. */
  class Validator {
    constructor(schemas) {
      this.schemas = schemas;
    }

    /** What is wrong with the value, with its place; null if nothing is. */
    problem(value, schema, root, path) {
      if (typeof schema === "boolean") return schema ? null : `${path} must not be present`;
      return firstOf(Object.keys(schema), (word) => {
        if (ANNOTATIONS.includes(word) || word === "then" || word === "else") return null;
        if (!Object.hasOwn(Validator.RULES, word)) throw new Error(`the schema uses ${word}, which this page does not know`);
        return Validator.RULES[word].call(this, value, schema, root, path);
      });
    }

    /** The schema that a reference names, and the document that it stands in. */
    resolve(reference, root) {
      const [name, pointer] = reference.split("#/");
      const document = name ? this.schemas[name] : root;
      return [pointer.split("/").reduce((part, step) => part[step], document), document];
    }

    static RULES = {
      $ref(value, schema, root, path) {
        const [target, document] = this.resolve(schema.$ref, root);
        return this.problem(value, target, document, path);
      },
      type(value, { type }, root, path) {
        const fits = listed(type).some((name) => TYPES[name](value));
        return fits ? null : `${path} must be ${listed(type).join(" or ")}`;
      },
      const: (value, schema, root, path) => (value === schema.const ? null : `${path} must be ${schema.const}`),
      enum: (value, schema, root, path) =>
        schema.enum.includes(value) ? null : `${path} must be one of ${schema.enum.join(", ")}`,
      required: (value, { required }, root, path) =>
        isObject(value) ? firstOf(required, (name) => (Object.hasOwn(value, name) ? null : `${path} lacks ${name}`)) : null,
      properties(value, { properties }, root, path) {
        if (!isObject(value)) return null;
        const there = Object.keys(properties).filter((name) => Object.hasOwn(value, name));
        return firstOf(there, (name) => this.problem(value[name], properties[name], root, `${path}.${name}`));
      },
      additionalProperties(value, schema, root, path) {
        if (!isObject(value)) return null;
        const more = Object.keys(value).filter((name) => !Object.hasOwn(schema.properties ?? {}, name));
        const rule = schema.additionalProperties;
        return firstOf(more, (name) => this.problem(value[name], rule, root, `${path}.${name.slice(0, 60)}`));
      },
      items(value, { items }, root, path) {
        if (!Array.isArray(value)) return null;
        return firstOf(value.keys(), (index) => this.problem(value[index], items, root, `${path}[${index}]`));
      },
      minItems: (value, { minItems }, root, path) =>
        Array.isArray(value) && value.length < minItems ? `${path} must have ${minItems} ${minItems === 1 ? "entry" : "entries"} or more` : null,
      maxItems: (value, { maxItems }, root, path) =>
        Array.isArray(value) && value.length > maxItems ? `${path} must have at most ${maxItems} entries` : null,
      minLength: (value, { minLength }, root, path) =>
        typeof value === "string" && value.length < minLength ? `${path} must not be empty` : null,
      maxLength: (value, { maxLength }, root, path) =>
        typeof value === "string" && value.length > maxLength ? `${path} must have at most ${maxLength} characters` : null,
      pattern: (value, { pattern }, root, path) =>
        typeof value === "string" && !new RegExp(pattern, "u").test(value) ? `${path} does not have the required form` : null,
      minimum: (value, { minimum }, root, path) =>
        typeof value === "number" && value < minimum ? `${path} must be at least ${minimum}` : null,
      maximum: (value, { maximum }, root, path) =>
        typeof value === "number" && value > maximum ? `${path} must be at most ${maximum}` : null,
      exclusiveMinimum: (value, { exclusiveMinimum }, root, path) =>
        typeof value === "number" && value <= exclusiveMinimum ? `${path} must be above ${exclusiveMinimum}` : null,
      exclusiveMaximum: (value, { exclusiveMaximum }, root, path) =>
        typeof value === "number" && value >= exclusiveMaximum ? `${path} must be below ${exclusiveMaximum}` : null,
      allOf(value, { allOf }, root, path) {
        return firstOf(allOf, (part) => this.problem(value, part, root, path));
      },
      oneOf(value, { oneOf }, root, path) {
        const fitting = oneOf.filter((part) => this.problem(value, part, root, path) === null).length;
        return fitting === 1 ? null : `${path} matches ${fitting} of its possible forms instead of 1`;
      },
      if(value, schema, root, path) {
        const branch = this.problem(value, schema.if, root, path) === null ? schema.then : schema.else;
        return branch === undefined ? null : this.problem(value, branch, root, path);
      },
    };
  }

  const beyondLimits = (value, limits, path, depth) => {
    if (depth > limits.deepest) return `${path} is nested deeper than ${limits.deepest} levels`;
    if (typeof value === "string") {
      return value.length > limits.longest_text ? `${path} is a text of more than ${limits.longest_text} characters` : null;
    }
    if (typeof value === "number") {
      return Math.abs(value) <= limits.largest_number ? null : `${path} is a number beyond ${limits.largest_number}`;
    }
    if (typeof value !== "object" || value === null) return null;
    const names = Object.keys(value);
    if (names.length > limits.longest_list) return `${path} has more than ${limits.longest_list} entries`;
    return firstOf(names, (name) => beyondLimits(value[name], limits, `${path}.${name.slice(0, 60)}`, depth + 1));
  };

  const twice = (names) => new Set(names).size < names.length;

  const ofRecord = (record) => {
    if (record.kind === "table" && record.rows.some((row) => row.length !== record.columns.length)) {
      return `table ${record.key} has a row with the wrong number of cells`;
    }
    return firstOf(machines.numbersOf(record), ({ interval }) =>
      interval && interval.low > interval.high ? `${record.key} has an interval that ends before it begins` : null,
    );
  };

  const contradiction = (document) => {
    if (twice(document.pages.map((page) => page.page))) return "two entries belong to the same page";
    return firstOf(document.pages, ({ page, records, provenance }) => {
      if (Number.isNaN(Date.parse(provenance.when))) return `page ${page} must say when it was measured`;
      if (twice(records.map((record) => record.key))) return `page ${page} has two records with the same key`;
      return firstOf(records, (record) => ofRecord(record));
    });
  };

  /** Each number of a record: its own, or those of its table's cells. */
  machines.numbersOf = (record) => {
    if (record.kind === "table") return record.rows.flat().filter(isObject);
    return ["measured", "counted", "derived", "modelled", "quoted"].includes(record.kind) ? [record] : [];
  };

  const OTHERS = new Map([
    ["tinytorch-records", "This file has the records of one page. Use a file that tinytorch measure wrote."],
    ["tinytorch-machine", "This file was written by tinytorch machine. Use a file that tinytorch measure wrote."],
    ["tinytorch-benchmark", "This file was written by tinytorch bench. Use a file that tinytorch measure wrote."],
  ]);

  /**
   * Returns {document} for the text of a good file, or {message} that says in a sentence why it is none.
   * @param {string} text of which nothing is known.
   * @param {{schema: object, records: object, limits: object}} rules from the book's data.
   */
  machines.read = (text, rules) => {
    let document;
    try {
      document = JSON.parse(text);
    } catch {
      return { message: text.trim() ? "This file is not JSON, so it does not contain measurements." : "This file is empty." };
    }
    const version = rules.schema.properties.schema_version.const;
    if (!isObject(document) || document.schema !== rules.schema.properties.schema.const) {
      const known = isObject(document) && typeof document.schema === "string" && OTHERS.get(document.schema);
      return { message: known || "This file is JSON, but tinytorch measure did not write it." };
    }
    if (document.schema_version !== version) {
      const given = String(document.schema_version).slice(0, 20);
      return { message: `This file has version ${given}, but this book reads version ${version}. Measure again with the code of this book.` };
    }
    const validator = new Validator({ "urn:tinytorch:records": rules.records });
    const problem =
      beyondLimits(document, rules.limits, "It", 0) ??
      validator.problem(document, rules.schema, rules.schema, "It") ??
      contradiction(document);
    return problem ? { message: `This file cannot be used: ${problem.replace(/^It\./, "")}.` } : { document };
  };
}
