#include "base/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "tests/base/temporary_folder.h"

namespace slipring::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using tests::TemporaryFolder;

/// Sources of which each layer can be set; nothing of this process's environment shows through.
class Layers {
 public:
  Layers() {
    sources.system_file = folder.path("etc/slipring.toml");
    sources.environment["XDG_CONFIG_HOME"] = folder.path("xdg");
  }

  void set(ConfigLayer layer, const std::string& key, const std::string& value) {
    switch (layer) {
      case ConfigLayer::built_in:
        break;
      case ConfigLayer::system_file:
        folder.write("etc/slipring.toml", line(key, value));
        break;
      case ConfigLayer::user_file:
        folder.write("xdg/slipring/slipring.toml", line(key, value));
        break;
      case ConfigLayer::named_file:
        sources.environment["SLIPRING_CONFIG"] = folder.write("named.toml", line(key, value));
        break;
      case ConfigLayer::environment:
        sources.environment[variable_of(key)] = value;
        break;
      case ConfigLayer::api:
        sources.overrides[key] = value;
        break;
    }
  }

  void set_named_file(const std::string& text) {
    sources.environment["SLIPRING_CONFIG"] = folder.write("named.toml", text);
  }

  Result<Config> load() const { return Config::load_from(sources); }

  TemporaryFolder folder;
  ConfigSources sources;

 private:
  static std::string line(const std::string& key, const std::string& value) {
    return key + " = " + value + "\n";
  }
  static std::string variable_of(const std::string& key) {
    for (const ConfigKey& known : config_keys())
      if (known.name == key) return known.variable;
    return "SLIPRING_UNKNOWN";
  }
};

constexpr ConfigLayer kLayers[] = {ConfigLayer::built_in,   ConfigLayer::system_file, ConfigLayer::user_file,
                                   ConfigLayer::named_file, ConfigLayer::environment, ConfigLayer::api};

std::string failure_of(const Result<Config>& config) {
  EXPECT_FALSE(config.is_ok());
  EXPECT_EQ(config.status().code(), StatusCode::invalid_argument);
  return config.status().message();
}

TEST(ConfigTest, HigherLayerWinsInEveryPair) {
  for (const ConfigLayer low : kLayers) {
    for (const ConfigLayer high : kLayers) {
      if (low >= high) continue;
      Layers layers;
      layers.set(low, "wait.spin_ns", "111");
      layers.set(high, "wait.spin_ns", "222");
      const auto config = layers.load();
      ASSERT_TRUE(config) << config.status().to_string();
      EXPECT_EQ(config.value().values().wait_spin_ns, 222);
      EXPECT_EQ(config.value().origin("wait.spin_ns")->layer, high);
      EXPECT_THAT(config.value().warnings(), IsEmpty());
    }
  }
}

TEST(ConfigTest, LayersThatSetDifferentKeysAllCount) {
  Layers layers;
  layers.set(ConfigLayer::system_file, "channel.slots", "16");
  layers.set(ConfigLayer::user_file, "plan.rings", "2");
  layers.set(ConfigLayer::named_file, "counters.enabled", "false");
  layers.set(ConfigLayer::environment, "all_reduce.algorithm", "ring");
  layers.set(ConfigLayer::api, "segment.backing", "shm");
  const auto config = layers.load();
  ASSERT_TRUE(config) << config.status().to_string();
  const ConfigValues& values = config.value().values();
  EXPECT_EQ(values.channel_slots, 16);
  EXPECT_EQ(values.plan_rings, 2);
  EXPECT_FALSE(values.counters_enabled);
  EXPECT_EQ(values.all_reduce_algorithm, "ring");
  EXPECT_EQ(values.segment_backing, "shm");
  EXPECT_EQ(values.op_timeout_ms, 60000);
}

TEST(ConfigTest, OriginNamesFileAndLineOrVariable) {
  Layers layers;
  layers.set_named_file("# a comment\n[wait]\nspin_ns = 5\n");
  layers.set(ConfigLayer::environment, "wait.yield_ns", "6");
  layers.set(ConfigLayer::api, "plan.rings", "1");
  const auto config = layers.load();
  ASSERT_TRUE(config) << config.status().to_string();
  EXPECT_EQ(config.value().origin("wait.spin_ns")->to_string(),
            "file named by SLIPRING_CONFIG " + layers.folder.path("named.toml") + ":3");
  EXPECT_EQ(config.value().origin("wait.yield_ns")->to_string(),
            "environment variable SLIPRING_WAIT_YIELD_NS");
  EXPECT_EQ(config.value().origin("plan.rings")->to_string(), "API");
  EXPECT_EQ(config.value().origin("op.timeout_ms")->to_string(), "built-in default");
  EXPECT_EQ(config.value().origin("no.such_key"), nullptr);
}

TEST(ConfigTest, UserFileComesFromHomeWhenXdgIsUnsetOrRelative) {
  Layers layers;
  layers.folder.write("home/.config/slipring/slipring.toml", "plan.rings = 3\n");
  layers.sources.environment["HOME"] = layers.folder.path("home");
  for (const bool relative : {false, true}) {
    layers.sources.environment.erase("XDG_CONFIG_HOME");
    if (relative) layers.sources.environment["XDG_CONFIG_HOME"] = "xdg";
    const auto config = layers.load();
    ASSERT_TRUE(config) << config.status().to_string();
    EXPECT_EQ(config.value().values().plan_rings, 3);
    EXPECT_EQ(config.value().origin("plan.rings")->layer, ConfigLayer::user_file);
  }
}

TEST(ConfigTest, LoadReadsTheEnvironmentOfTheProcess) {
  const TemporaryFolder folder;
  ::setenv("XDG_CONFIG_HOME", folder.path("none").c_str(), 1);
  ::setenv("SLIPRING_CHANNEL_SLOTS", "7", 1);
  ::setenv("SLIPRING_CONFIG", folder.write("c.toml", "channel.bytes = 8192\n").c_str(), 1);
  const auto config = Config::load({{"plan.rings", "4"}});
  ::unsetenv("SLIPRING_CHANNEL_SLOTS");
  ::unsetenv("SLIPRING_CONFIG");
  ASSERT_TRUE(config) << config.status().to_string();
  EXPECT_EQ(config.value().values().channel_slots, 7);
  EXPECT_EQ(config.value().values().channel_bytes, 8192);
  EXPECT_EQ(config.value().values().plan_rings, 4);
}

TEST(ConfigTest, UnknownKeyInFileWarnsWithPlaceAndNearestKey) {
  Layers layers;
  layers.set_named_file(
      "plan.rings = 2\n[wait]\nspin_nss = 1\n[zebra]\nstripes = 12\n[wait.spin_ms]\nx = 1\n");
  const auto config = layers.load();
  ASSERT_TRUE(config) << config.status().to_string();
  const std::string file = layers.folder.path("named.toml");
  EXPECT_THAT(config.value().warnings(),
              ::testing::UnorderedElementsAre(
                  "unknown config key wait.spin_nss in " + file + ":3; nearest known key wait.spin_ns",
                  "unknown config key wait.spin_ms.x in " + file + ":7; nearest known key wait.spin_ns",
                  "unknown config key zebra.stripes in " + file +
                      ":5; no known key resembles it; slipring-info --config lists all"));
  EXPECT_EQ(config.value().values().plan_rings, 2);
}

TEST(ConfigTest, UnknownVariableWarnsWithoutItsValue) {
  Layers layers;
  layers.sources.environment["SLIPRING_WIAT_SPIN_NS"] = "5";
  layers.sources.environment["SLIPRING_JOB_TOKN"] = "secret";
  const auto config = layers.load();
  ASSERT_TRUE(config) << config.status().to_string();
  EXPECT_THAT(
      config.value().warnings(),
      ElementsAre("unknown environment variable SLIPRING_JOB_TOKN; nearest known variable SLIPRING_JOB_TOKEN",
                  "unknown environment variable SLIPRING_WIAT_SPIN_NS; nearest known variable "
                  "SLIPRING_WAIT_SPIN_NS"));
}

TEST(ConfigTest, VariablesOfTheLauncherAreNoUnknownKeys) {
  Layers layers;
  for (const ConfigVariable& variable : config_variables())
    if (variable.name != "SLIPRING_CONFIG") layers.sources.environment[std::string(variable.name)] = "1";
  layers.sources.environment["NOT_SLIPRING_X"] = "1";
  layers.sources.environment["SLIPRINGX"] = "1";
  const auto config = layers.load();
  ASSERT_TRUE(config) << config.status().to_string();
  EXPECT_THAT(config.value().warnings(), IsEmpty());
  EXPECT_THAT(config.value().to_toml(), Not(HasSubstr("token")));
}

TEST(ConfigTest, UnknownKeyFromTheApiIsAnError) {
  Layers layers;
  layers.sources.overrides["wait.spinns"] = "5";
  EXPECT_EQ(
      failure_of(layers.load()),
      "unknown config key \"wait.spinns\" with value \"5\" from the API; nearest known key wait.spin_ns");
}

TEST(ConfigTest, BadTextNamesKeyValueOriginAndWhatIsAllowed) {
  const struct {
    const char* key;
    const char* value;
    const char* allowed;
  } cases[] = {
      {"wait.spin_ns", "abc", "-1 (automatic) or an integer of at least 0 ns"},
      {"wait.spin_ns", "", "-1 (automatic) or an integer of at least 0 ns"},
      {"wait.spin_ns", "-2", "-1 (automatic) or an integer of at least 0 ns"},
      {"wait.spin_ns", "1 ", "-1 (automatic) or an integer of at least 0 ns"},
      {"wait.spin_ns", "1.5", "-1 (automatic) or an integer of at least 0 ns"},
      {"wait.spin_ns", "99999999999999999999", "-1 (automatic) or an integer of at least 0 ns"},
      {"op.timeout_ms", "0", "an integer from 1 to 2147483647 ms"},
      {"op.timeout_ms", "2147483648", "an integer from 1 to 2147483647 ms"},
      {"plan.rings", "0", "-1 (automatic) or an integer from 1 to 16 rings"},
      {"plan.rings", "17", "-1 (automatic) or an integer from 1 to 16 rings"},
      {"segment.backing", "SHM", "auto, memfd, shm"},
      {"counters.enabled", "yes", "true or false"},
      {"log.file", "\xff", "any text in UTF-8"},
  };
  for (const auto& bad : cases) {
    Layers layers;
    layers.set(ConfigLayer::environment, bad.key, bad.value);
    const std::string from_environment = failure_of(layers.load());
    EXPECT_THAT(from_environment, HasSubstr(std::string("config key ") + bad.key + " has value \"" +
                                            bad.value + "\" from environment variable SLIPRING_"));
    EXPECT_THAT(from_environment, HasSubstr(std::string("; allowed is ") + bad.allowed));

    Layers api;
    api.set(ConfigLayer::api, bad.key, bad.value);
    EXPECT_THAT(failure_of(api.load()),
                HasSubstr(std::string("\"") + bad.value + "\" from API; allowed is "));
  }
}

TEST(ConfigTest, WrongTypeInFileIsAnErrorWithItsLine) {
  const struct {
    const char* line;
    const char* shown;
  } cases[] = {
      {"wait.spin_ns = \"5\"", "'5'"}, {"wait.spin_ns = 5.0", "5.0"},     {"wait.spin_ns = true", "true"},
      {"wait.spin_ns = [1]", "[ 1 ]"}, {"counters.enabled = 1", "1"},     {"log.file = 3", "3"},
      {"wait.spin_ns = -7", "-7"},     {"log.file = 1979-05-27", "1979"},
  };
  for (const auto& bad : cases) {
    Layers layers;
    layers.set_named_file(std::string("\n") + bad.line + "\n");
    const std::string failure = failure_of(layers.load());
    EXPECT_THAT(failure, HasSubstr(std::string(" has value ") + bad.shown));
    EXPECT_THAT(failure, HasSubstr(layers.folder.path("named.toml") + ":2; allowed is "));
  }
}

TEST(ConfigTest, TableInThePlaceOfAValueIsAnError) {
  Layers layers;
  layers.set_named_file("[wait.spin_ns]\nx = 1\n");
  EXPECT_THAT(failure_of(layers.load()), HasSubstr("config key wait.spin_ns has value "));
}

TEST(ConfigTest, BadValueIsAnErrorEvenWhereAHigherLayerHidesIt) {
  for (const ConfigLayer low : kLayers) {
    if (low == ConfigLayer::built_in || low == ConfigLayer::api) continue;
    Layers layers;
    layers.set(low, "plan.rings", "99");
    layers.set(ConfigLayer::api, "plan.rings", "2");
    EXPECT_THAT(failure_of(layers.load()), HasSubstr("config key plan.rings has value"));
  }
}

TEST(ConfigTest, LogLevelAndFaultErrorsSayWhichPartIsWrong) {
  Layers layers;
  layers.set(ConfigLayer::api, "log.level", "warn,stroe=debug");
  EXPECT_THAT(failure_of(layers.load()),
              HasSubstr("unknown log subsystem \"stroe\"; subsystems are config, "));
  Layers fault;
  fault.set(ConfigLayer::api, "test.fault", "explode rank 1 op 2");
  EXPECT_THAT(failure_of(fault.load()), HasSubstr("\"explode rank 1 op 2\" is not of the form "));
}

TEST(ConfigTest, NamedFileThatIsMissingOrNoFileIsAnError) {
  Layers layers;
  for (const std::string& path : {layers.folder.path("missing.toml"), layers.folder.path("")}) {
    layers.sources.environment["SLIPRING_CONFIG"] = path;
    const std::string failure = failure_of(layers.load());
    EXPECT_THAT(failure, HasSubstr("SLIPRING_CONFIG names file " + path + ", which cannot be read: "));
  }
  layers.sources.environment["SLIPRING_CONFIG"] = "";
  EXPECT_TRUE(layers.load());
}

TEST(ConfigTest, EndlessFileIsAnErrorNotAHang) {
  Layers layers;
  layers.sources.environment["SLIPRING_CONFIG"] = "/dev/zero";
  EXPECT_THAT(failure_of(layers.load()), HasSubstr("File too large"));
  const std::string fifo = layers.folder.path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  layers.sources.environment["SLIPRING_CONFIG"] = fifo;
  EXPECT_TRUE(layers.load());  // nobody writes: an empty file
}

TEST(ConfigTest, MissingUserAndSystemFilesAreFineUnreadableOnesWarn) {
  Layers layers;
  auto config = layers.load();
  ASSERT_TRUE(config) << config.status().to_string();
  EXPECT_THAT(config.value().warnings(), IsEmpty());

  // A folder in the place of the file fails to be read for root too.
  layers.folder.write("etc/slipring.toml/file", "");
  config = layers.load();
  ASSERT_TRUE(config) << config.status().to_string();
  EXPECT_THAT(config.value().warnings(), ElementsAre(HasSubstr("its values are not used")));
}

TEST(ConfigTest, FileThatIsNotTomlIsAnErrorWithItsLine) {
  for (const ConfigLayer layer :
       {ConfigLayer::system_file, ConfigLayer::user_file, ConfigLayer::named_file}) {
    Layers layers;
    layers.set(layer, "plan.rings = 1\nthis is", "=");
    EXPECT_THAT(failure_of(layers.load()), HasSubstr(".toml:2:"));
  }
}

/// A value that the key accepts and that is not its default.
std::string other_value(const ConfigKey& key) {
  const ConfigValue standard = key.get(ConfigValues{});
  if (key.name == "log.level") return "info,store=trace";
  if (key.name == "test.fault") return "stop rank 3 op 4 chunk 5";
  if (!key.allowed.words.empty()) return std::string(key.allowed.words.back());
  if (const auto* b = std::get_if<bool>(&standard)) return *b ? "false" : "true";
  if (const auto* n = std::get_if<std::int64_t>(&standard)) return std::to_string(*n < 0 ? 3 : *n + 1);
  if (const auto* d = std::get_if<double>(&standard)) return std::to_string(*d + 1);
  return "a \"quoted\" \\ path\twith\nlines # = [x] \xC3\xA4\x01";
}

TEST(ConfigTest, DumpLoadsAgainToTheSameValues) {
  Layers layers;
  for (const ConfigKey& key : config_keys())
    layers.set(ConfigLayer::api, std::string(key.name), other_value(key));
  const auto config = layers.load();
  ASSERT_TRUE(config) << config.status().to_string();
  const std::string dump = config.value().to_toml();

  Layers again;
  again.set_named_file(dump);
  const auto loaded = again.load();
  ASSERT_TRUE(loaded) << loaded.status().to_string() << "\n" << dump;
  EXPECT_THAT(loaded.value().warnings(), IsEmpty());
  for (const ConfigKey& key : config_keys()) {
    EXPECT_EQ(key.get(loaded.value().values()), key.get(config.value().values())) << key.name;
    EXPECT_NE(key.get(loaded.value().values()), key.get(ConfigValues{})) << key.name;
    EXPECT_EQ(loaded.value().origin(key.name)->layer, ConfigLayer::named_file);
    EXPECT_THAT(dump, HasSubstr(key.meaning));
  }
}

TEST(ConfigTest, DumpShowsOriginsAndSurvivesAPathWithANewline) {
  Layers layers;
  layers.sources.environment["SLIPRING_CONFIG"] =
      layers.folder.write("a\nplan.rings = 9\n", "plan.rings = 2\n");
  layers.set(ConfigLayer::environment, "channel.slots", "9");
  const auto config = layers.load();
  ASSERT_TRUE(config) << config.status().to_string();
  const std::string dump = config.value().to_toml();
  EXPECT_THAT(dump, HasSubstr("# origin: environment variable SLIPRING_CHANNEL_SLOTS\nchannel.slots = 9\n"));
  Layers again;
  again.set_named_file(dump);
  const auto loaded = again.load();
  ASSERT_TRUE(loaded) << loaded.status().to_string();
  EXPECT_EQ(loaded.value().values().plan_rings, 2);
}

TEST(ConfigTest, EveryKeyIsUniqueDocumentedAndItsDefaultAllowed) {
  std::set<std::string> names;
  const std::string docs = config_markdown();
  for (const ConfigKey& key : config_keys()) {
    EXPECT_TRUE(names.insert(std::string(key.name)).second) << key.name;
    EXPECT_TRUE(names.insert(key.variable).second) << key.variable;
    EXPECT_TRUE(key.allowed.accept(key.get(ConfigValues{}))) << key.name;
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    EXPECT_THAT(docs, HasSubstr("`" + std::string(key.name) + "` | `" + key.variable + "`"));
  }
  for (const ConfigVariable& variable : config_variables()) {
    EXPECT_TRUE(names.insert(std::string(variable.name)).second) << variable.name;
    EXPECT_THAT(docs, HasSubstr("`" + std::string(variable.name) + "`"));
  }
}

}  // namespace
}  // namespace slipring::base
